from __future__ import annotations

import re

from graphut.experiments.records.steps_html import steps_html


def test_steps_html_shades_a_token_the_more_the_more_steps_it_takes() -> None:
    html = steps_html({"input": (["a", "b"], [1, 3], ["1", "3"]), "output": (["c"], [6], ["6+"])})
    colours = [tuple(map(int, found.split(", "))) for found in re.findall(r"rgb\(([^)]*)\)", html)]
    assert len(colours) == 3
    assert sorted(colours, reverse=True) == colours  # from light to dark
    assert re.findall(r"(\w)<sub>(\S+)</sub>", html) == [("a", "1"), ("b", "3"), ("c", "6+")]


def test_steps_html_says_how_many_tokens_are_left_out() -> None:
    html = steps_html({"long": (range(507), [1] * 507, ["1"] * 507)})
    assert html.count("<sub>") == 500 and html.endswith(" and 7 more</div>")
