"""The lesson of a report folded by its headings, without links that lead nowhere."""

import re

OPEN = ("What we see", "What the document says", "What it means")
"""The sections that a reader of results came for; the others are a click away."""
ABOUT = "About this lesson"
CELL = re.compile(r'(?=<div class="jp-Cell )')
HEADING = re.compile(r"<h2\b([^>]*)>(.*?)</h2>", re.DOTALL)
LINK = re.compile(r'<a\b[^>]*?href="([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)
AWAY = ("https://", "http://", "mailto:")
TAG = re.compile(r"<[^>]+>")


def folded(body: str) -> str:
    """The cells of a page below their headings; of what has no heading nothing is changed."""
    before, *cells = CELL.split(body)
    if not HEADING.search(body):
        return body
    sections: list[tuple[str, str, list[str]]] = [("", ABOUT, [])]
    for cell in cells:
        if match := HEADING.search(cell):
            sections.append((match[1], _words(match[2]), []))
            cell = cell.replace(match[0], "", 1)
        sections[-1][2].append(cell)
    return before + "".join(_section(tag, name, "".join(cells)) for tag, name, cells in sections)


def living(page: str) -> str:
    """The page in which only links are left that lead somewhere from any folder."""
    ids = set(re.findall(r'\bid="([^"]*)"', page))

    def link(match: re.Match[str]) -> str:
        inside = match[1].startswith("#") and match[1][1:] in ids
        if inside or match[1].startswith(AWAY):
            return match[0]
        return f"<span>{match[2]}</span>"

    return LINK.sub(link, page)


# What the heading had in its tag, so that links find it.
def _section(tag: str, name: str, inside: str) -> str:
    texts = "".join(cell for cell in CELL.split(inside) if "jp-MarkdownCell" in cell)
    kind = ""
    if "jp-OutputArea-output" not in inside and not _words(texts):
        kind = " only-code" if "jp-CodeCell" in inside else " empty"
    attribute = " open" if name in OPEN else ""
    summary = f"<summary{tag}>{name}</summary>"
    return f'<details class="lesson{kind}"{attribute}>{summary}{inside}</details>'


def _words(html: str) -> str:
    return TAG.sub("", html).replace("¶", "").strip()
