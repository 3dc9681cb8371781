"""Pages and help texts are plain English: short sentences, and no turn that trips a reader."""

import re

import pytest
from test_cli import _verbs
from test_readme import HOME, PAGES, prose

from labkit.cli import _parser

# Pages that are not rewritten yet; may only shrink.
NOT_YET: set[str] = set()
LONGEST = 30
TURNS = re.compile(
    r"\b(anew|whoever|nobody knows|so many|of which|as many as there|is told|are told|be told"
    r"|told apart|tells how|tells whether|as \w+ has it|as \w+ have it|what is \w+ of|can be meant"
    r"|cannot be meant|has it not|where there is none|asked of it|what came of|by itself says)\b",
    re.IGNORECASE,
)
TEXTS = {page.stem: page for page in [HOME / "README.md", *PAGES] if page.stem not in NOT_YET}
HELPS = {" ".join(words): parser for words, parser in _verbs(_parser())}


def sentences(text):
    """The sentences of a text: its paragraphs, points and cells, without code, links and marks."""
    text = re.sub(r"<!--.*?-->|<[^>\n]+>", " ", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"^\|.*$", lambda row: row[0].replace(";", "."), text, flags=re.MULTILINE)
    for part in re.split(r"\n\s*\n|\n\s*[*-] |^#+ .*$|\n    .*|\n?\|", text, flags=re.MULTILINE):
        yield from re.split(r"(?<=[.:?!])[*_)\"']*\s+", part)


def bad(text):
    for sentence in sentences(text):
        words = re.findall(r"[\w'-]+", sentence)
        if len(words) > LONGEST or TURNS.search(" ".join(words)):
            yield " ".join(sentence.split())


@pytest.mark.parametrize("name", TEXTS)
def test_a_page_is_plain_english(name):
    assert list(bad(prose(TEXTS[name]))) == []


@pytest.mark.parametrize("name", HELPS)
def test_a_help_text_is_plain_english(name):
    parser = HELPS[name]
    said = [parser.description, *(one.help for one in parser._actions)]
    said += (parser.epilog or "").splitlines()
    assert [line for text in said if text for line in bad(text)] == []
