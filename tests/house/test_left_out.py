"""Files of tests that `make check` does not import: still, what they ask for is there."""

import ast
import re
from functools import cache
from pathlib import Path

import collecting
import pytest
from trees import nodes, tree

HOME = Path(__file__).resolve().parents[2]
CHECK = re.search(r"-m '(not box.*)'", (HOME / "Makefile").read_text("utf-8"))[1]
FILES = [
    path for path in sorted((HOME / "tests").rglob("test_*.py"))
    if collecting.marks(path) & collecting.left_out(CHECK)
]  # fmt: skip
ROOTS = [HOME, HOME / "tests", HOME / "tests/helpers", HOME / "notebooks/docs/site"]


@cache
def place_of(module):
    """The file or folder of a module of ours, if it is one."""
    way = module.replace(".", "/")
    found = [root / end for root in ROOTS for end in (f"{way}.py", f"{way}/__init__.py", way)]
    return next((path for path in found if path.exists()), None)


@cache
def names(path):
    """What a module offers to those who import it, and whether it may offer more."""
    if path.is_dir():
        return {one.stem for one in path.glob("*")}, False
    found = {one.stem for one in path.parent.glob("*")} if path.stem == "__init__" else set()
    for node in nodes(path):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(one.asname or one.name).split(".")[0] for one in node.names}
    return found, any(getattr(node, "name", "") == "__getattr__" for node in tree(path).body)


def lacking(path):
    """What a file asks modules of ours for and they have not."""
    for node in tree(path).body:
        if isinstance(node, ast.Import):
            asked = [one.name for one in node.names if one.name.split(".")[0] == "labkit"]
            yield from (name for name in asked if not place_of(name))
        elif isinstance(node, ast.ImportFrom):
            of = place_of(node.module)
            if of is None and node.module.split(".")[0] in ("labkit", "tests"):
                yield node.module
            offered, more = names(of) if of else (set(), True)
            yield from (one.name for one in node.names if not more and one.name not in offered)


def test_what_tests_import_of_ours_is_there():
    assert FILES
    missing = {str(path.relative_to(HOME)): list(lacking(path)) for path in FILES}
    assert {name: words for name, words in missing.items() if words} == {}


@pytest.mark.parametrize(
    "text",
    ["from labkit.host import Gost", "import labkit.hosts", "from labkit.ssh.shall import Late"],
)
def test_what_is_not_there_is_found(tmp_path, text):
    (tmp_path / "test_it.py").write_text(f"{text}\n")
    assert list(lacking(tmp_path / "test_it.py"))


@pytest.mark.parametrize(
    ("asked", "out"),
    [
        ("not box and not slow", {"box", "slow"}),
        ("not torture", {"torture"}),
        ("torture or hypothesis", set()),
        ("not box or slow", set()),
        ("slow and not box", set()),
        ("", set()),
    ],
)
def test_only_what_is_asked_to_be_left_out_is(asked, out):
    assert collecting.left_out(asked) == out


@pytest.mark.parametrize(
    ("line", "marks"),
    [
        ("pytestmark = pytest.mark.slow", {"slow"}),
        ("pytestmark = [\n    pytest.mark.box,\n    pytest.mark.slow,\n]", {"box", "slow"}),
        ("    pytestmark = pytest.mark.slow", set()),
        ("@pytest.mark.slow", set()),
    ],
)
def test_the_marks_of_a_file_are_those_of_all_its_tests(tmp_path, line, marks):
    (tmp_path / "test_it.py").write_text(f"import pytest\n\n{line}\n\ndef test_it(): ...\n")
    assert collecting.marks(tmp_path / "test_it.py") == marks
