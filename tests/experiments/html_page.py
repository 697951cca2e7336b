from html.parser import HTMLParser


class Page(HTMLParser):
    """The tables of a page by their captions, its headings, pictures, links and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.headings: list[tuple[int, str]] = []
        self.pictures: list[dict[str, str | None]] = []
        self.links: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self._caption = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.links += [str(found[name]) for name in ("src", "href", "action") if name in found]
        if tag == "img":
            self.pictures.append(found)
        if tag not in ("img", "meta", "input", "br", "link"):
            self._open.append(tag)
        if tag == "table":
            self._caption = ""
        if tag == "tr":
            self.tables[self._caption].append([])
        if tag in ("td", "th"):
            self.tables[self._caption][-1].append("")
            assert tag == "td" or "scope" in found
        if tag in ("h1", "h2", "h3", "h4"):
            self.headings.append((int(tag[1]), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag == "caption":
            assert self._caption not in self.tables
            self.tables[self._caption] = []

    def handle_data(self, data: str) -> None:
        if "script" in self._open or "style" in self._open:
            return
        self.text += data
        if "caption" in self._open:
            self._caption += data
        elif {"td", "th"} & {*self._open}:
            self.tables[self._caption][-1][-1] += data
        elif self._open and self._open[-1] in ("h1", "h2", "h3", "h4"):
            level, text = self.headings[-1]
            self.headings[-1] = (level, text + data)
