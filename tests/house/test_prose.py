"""Pages and help texts are plain English: short sentences, and no turn that trips a reader."""

import ast
import re

import pytest
from each import each
from trees import nodes

from labkit.cli import _parser
from tests.commands.test_cli import _verbs
from tests.house.test_readme import HOME, PAGES, prose

# Pages that are not rewritten yet; may only shrink.
NOT_YET: set[str] = set()
NOTEBOOKS = sorted((HOME / "notebooks").glob("*.ipynb"))
MODULES = sorted((HOME / "labkit").rglob("*.py"))
LONGEST = 30
TURNS = re.compile(
    r"\b(anew|whoever|so many|of which|as many as there|nobody knows|has it not|what is \w+ of"
    r"|(?:is|are|be|was|were|not) told|told (?:apart|of)|tells? (?:how|whether|each|one|of|apart)"
    r"|as \w+ ha(?:s|ve) it|can(?:not)? be meant|has not (?:a|the|so)|comes? to (?:its|their) end"
    r"|hung up without|where there is none|is asked of|to be had)\b",
    re.IGNORECASE,
)
# The table of faults names tests by their sentences.
PROOFS = sorted((HOME / "notebooks/docs/proof").glob("*.md"))
READ = [
    HOME / "README.md",
    HOME / "CONTRIBUTING.md",
    *PAGES,
    *(page for page in PROOFS if page.stem != "faults"),
]
TEXTS = {page.relative_to(HOME).as_posix(): page for page in READ if page.stem not in NOT_YET}
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


@each(NOTEBOOKS, lambda path: path.stem)
def test_what_a_notebook_says_is_plain_english(path):
    assert list(bad(prose(path))) == []


def docstrings(module):
    """What a module says of itself and of each public name in it, by name."""
    named = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in nodes(module):
        public = isinstance(node, named) and not node.name.startswith("_")
        if public or isinstance(node, ast.Module):
            yield getattr(node, "name", module.stem), ast.get_docstring(node) or ""


def test_docstrings_of_public_names_are_plain_english():
    found = [
        (module.relative_to(HOME).as_posix(), name, line)
        for module in MODULES for name, text in docstrings(module) for line in bad(text)
    ]  # fmt: skip
    assert found == []


@pytest.mark.parametrize("name", HELPS)
def test_a_help_text_is_plain_english(name):
    parser = HELPS[name]
    said = [parser.description, *(one.help for one in parser._actions)]
    said += (parser.epilog or "").splitlines()
    assert [line for text in said if text for line in bad(text)] == []


def said_in(module):
    """What a module may say to a user: its texts of several words, without docstrings."""
    silent = {id(one.value) for one in nodes(module) if isinstance(one, ast.Expr)}
    for one in nodes(module):
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in silent:
            yield one.value


def test_no_message_has_a_turn_that_trips_a_reader():
    texts = [(module, text) for module in MODULES for text in said_in(module)]
    assert len(texts) > 5000
    assert [(module.name, text) for module, text in texts if TURNS.search(text)] == []
