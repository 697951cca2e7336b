"""HTML for reports: tokens with a background that is darker the more steps they took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_MAX_TOKENS = 500  # in a row
_BLUE = (0, 114, 178)  # as in `graphut.plotting.figure`


def steps_html(rows: Mapping[str, tuple[Sequence[object], Sequence[int], Sequence[str]]]) -> str:
    """Return HTML with a line of tokens for each name; tokens with more steps are darker.

    `rows` is a dictionary from a name to the tokens, their numbers of steps, and these as texts.
    """
    most = max((max(steps, default=1) for _, steps, _ in rows.values()), default=1)
    lines = []
    for name, (tokens, steps, texts) in rows.items():
        columns = list(zip(tokens, steps, texts, strict=True))[:_MAX_TOKENS]
        cells = " ".join(_cell(str(token), n, text, most) for token, n, text in columns)
        more = f" and {len(steps) - _MAX_TOKENS} more" if len(steps) > _MAX_TOKENS else ""
        lines.append(f"<div><b>{escape(name)}</b> {cells}{more}</div>")
    return "".join(lines)


def _cell(token: str, step: int, text: str, most: int) -> str:
    share = 0.6 * step / most  # light enough for black letters
    red, green, blue = (round(255 - share * (255 - channel)) for channel in _BLUE)
    style = f"background: rgb({red}, {green}, {blue}); color: black; padding: 0 3px"
    return f'<span style="{style}" title="{step} steps">{escape(token)}<sub>{text}</sub></span>'
