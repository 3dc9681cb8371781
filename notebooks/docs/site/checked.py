"""Checks the links of the site as it was made: pages, anchors, pictures, scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

NAME = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}", re.IGNORECASE)
MAIL = re.compile(r"[^@\s]+@[^@\s]+")
LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src"}
SCHEMES = ("http", "https", "mailto")


@dataclass
class Linked(HTMLParser):
    """A page that notes its anchors, where it leads to, and what a browser loads with it."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the parser has come to."""
        has = {name: value for name, value in attrs if value}
        self.anchors |= {has[name] for name in ("id", "name") if name in has}
        if tag == "a" and "href" in has:
            self.links.append(has["href"])
        elif tag == "link" and has.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(has["href"])
        elif has.get(LOADED.get(tag, "")):
            self.loaded.append(has[LOADED[tag]])


def wrong(site: Path) -> list[str]:
    """Sentences on all links that lead nowhere, and on all that would ask another host."""
    pages = {file: _read(file) for file in sorted(site.rglob("*.html"))}
    return [f"{file.relative_to(site)}: {said}" for file in pages for said in _wrong(file, pages)]


def _read(file: Path) -> Linked:
    page = Linked()
    page.feed(file.read_text("utf-8"))
    return page


def _wrong(file: Path, pages: dict[Path, Linked]) -> Iterator[str]:
    for link in pages[file].loaded:
        if urlsplit(link).netloc:
            yield f"loads {link} from another host"
        elif urlsplit(link).scheme != "data":
            yield from _wrong_here(file, link, pages)
    for link in pages[file].links:
        if urlsplit(link).scheme or urlsplit(link).netloc:
            yield from _wrong_outside(link)
        else:
            yield from _wrong_here(file, link, pages)


# No network is asked, so that a link to elsewhere is only read.
def _wrong_outside(link: str) -> Iterator[str]:
    parts = urlsplit(link)
    mail = parts.scheme == "mailto" and MAIL.fullmatch(parts.path)
    host = parts.scheme in SCHEMES and NAME.fullmatch(parts.hostname or "")
    if not (mail or host) or " " in link:
        yield f"{link} is no address"


def _wrong_here(file: Path, link: str, pages: dict[Path, Linked]) -> Iterator[str]:
    parts = urlsplit(link)
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not target.is_file():
        yield f"{link} leads to no file"
    elif parts.fragment and target in pages:
        anchor = unquote(parts.fragment)
        if anchor not in pages[target].anchors:
            yield f"{link} leads to no heading"
