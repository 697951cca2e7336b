from html.parser import HTMLParser


class Page(HTMLParser):
    """The tables of a page by their captions, its pictures and text; its tags must match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.pictures: list[dict[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self._caption = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.pictures.append(dict(attrs))
        elif tag != "meta":
            self._open.append(tag)
        if tag == "table":
            self._caption = ""
        if tag == "tr":
            self.tables.setdefault(self._caption, []).append([])
        if tag in ("td", "th"):
            self.tables[self._caption][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.text += data
        if "caption" in self._open:
            self._caption += data
        elif {"td", "th"} & {*self._open}:
            self.tables[self._caption][-1][-1] += data
