"""Pages and help texts are plain English: short sentences, and no turn that trips a reader."""

import ast
import re

import pytest
from each import each
from trees import nodes

from labkit.cli import parser as all_parsers
from tests.commands.test_cli import _verbs
from tests.house.test_readme import HOME, PAGES, prose

NOTEBOOKS = sorted((HOME / "notebooks").glob("*.ipynb"))
MODULES = sorted((HOME / "labkit").rglob("*.py"))
LONGEST = 25
TURNS = re.compile(
    r"\b(anew|whoever|so many|of which|as many as there|nobody knows|has it not|what is \w+ of"
    r"|(?:is|are|be|was|were|not) told|told (?:apart|of)|tells? (?:how|whether|each|one|of|apart)"
    r"|as \w+ ha(?:s|ve) it|can(?:not)? be meant|has not (?:a|the|so)|comes? to (?:its|their) end"
    r"|hung up without|where there is none|is asked of|to be had)\b",
    re.IGNORECASE,
)
# Lines of a help text that show commands, and texts that a program reads.
EXAMPLE = re.compile(r"^  .*$", re.MULTILINE)
PROGRAM = re.compile(r"\n|\$\w|\b(?:SELECT|select)\b")
# The table of faults names tests by their sentences.
PROOFS = sorted((HOME / "notebooks/docs/proof").glob("*.md"))
READ = [
    HOME / "README.md",
    HOME / "CHANGELOG.md",
    HOME / "CONTRIBUTING.md",
    *(page for page in PAGES if page.stem != "gallery"),  # its sentences are generated
    *(page for page in PROOFS if page.stem != "faults"),
]
TEXTS = {page.relative_to(HOME).as_posix(): page for page in READ}
HELPS = {" ".join(words): parser for words, parser in _verbs(all_parsers())}


def sentences(text):
    """The sentences of a text: its paragraphs, points and cells, without code, links and marks."""
    text = re.sub(r"<!--.*?-->|<[^>\n]+>", " ", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\b(code|\d+)(?:, \1)+", "list", re.sub(r"\b\d+(?:, \d+)+", "list", text))
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


@each(NOTEBOOKS, lambda path: path.stem)
def test_what_a_notebook_says_is_plain_english(path):
    assert list(bad(prose(path))) == []


@pytest.mark.parametrize("name", HELPS)
def test_a_help_text_is_plain_english(name):
    parser = HELPS[name]
    said = [parser.description, parser.epilog, *(action.help for action in parser._actions)]
    assert [line for text in said if text for line in bad(EXAMPLE.sub("\n", text))] == []


def text_of(node):
    """A text as it is written, with `x` for what is put into it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(value) for value in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "x"


def said_in(module):
    """What a module may say to a user: its texts of several words, without docstrings."""
    silent = {id(node.value) for node in nodes(module) if isinstance(node, ast.Expr)}
    for node in nodes(module):
        if isinstance(node, ast.JoinedStr):
            silent |= {id(part) for part in node.values}
    for node in nodes(module):
        text = isinstance(node, ast.JoinedStr) or text_of(node) != "x"
        if text and id(node) not in silent:
            yield text_of(node)


def test_messages_are_plain_english():
    texts = [(module, text) for module in MODULES for text in said_in(module)]
    assert len(texts) > 5000
    long = [text for _, text in texts if not PROGRAM.search(text) for text in bad(text)]
    turns = [(module.name, text) for module, text in texts if TURNS.search(text)]
    assert (long, turns) == ([], [])
