"""The form of the package: who imports whom, sizes, folders that are registries."""

import ast
import importlib
import inspect
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from each import each
from trees import nodes, tree

HOME = Path(__file__).parents[2]
PACKAGE = HOME / "labkit"
MOST_ROWS, MOST_AT_THE_ROOT = 8, 20

# CONTRIBUTING.md holds the order: a module imports from its own row and from rows above it.
ROWS = (HOME / "CONTRIBUTING.md").read_text("utf-8").split("```order\n")[1].split("```")[0]
ROW = {name: n for n, row in enumerate(ROWS.splitlines()) for name in row.split()}
FORBIDDEN = {
    "manager", "handler", "helper", "helpers", "util", "utils", "common", "misc", "engine",
    "factory", "context", "config", "data", "info", "base", "core",
}  # fmt: skip

TESTS = sorted(path for path in (HOME / "tests").rglob("*.py") if "cases" not in path.parts)
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def name_of(path):
    return str(path.relative_to(HOME))


def home(path):
    """The word of the order that a file belongs to: its folder, or its own name."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def name_of_module(path):
    parts = path.relative_to(HOME).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMED = {name_of_module(path) for path in MODULES}


@cache
def modules_imported(path):
    """The modules that a file imports, those too that it imports late or for types alone."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: a relative import"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {one if one in NAMED else node.module for one in whole}
    return found & NAMED


def imported(path):
    """The words of the order that a file imports, wherever in the file."""
    return {name.split(".")[1] for name in modules_imported(path)}


@cache
def functions(path):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in nodes(path) if isinstance(node, kinds)]


def length(node):
    return node.end_lineno - node.lineno + 1


def test_every_module_has_its_row():
    assert {home(path) for path in MODULES} <= set(ROW), "add the new word to CONTRIBUTING.md"
    assert set(ROW) <= {home(path) for path in MODULES}, "CONTRIBUTING.md names what is not there"


def test_the_house_has_few_rows_and_few_files_at_its_root():
    assert len(ROWS.splitlines()) <= MOST_ROWS
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_AT_THE_ROOT


@each(MODULES, name_of)
def test_imports_never_point_downwards(path):
    assert {name for name in imported(path) if ROW[name] > ROW[home(path)]} == set()


def test_rooms_of_one_row_import_each_other_in_no_circle():
    beside = {name: set() for name in ROW}
    for path in MODULES:
        own = home(path)
        beside[own] |= {name for name in imported(path) if ROW.get(name) == ROW[own]} - {own}
    TopologicalSorter(beside).prepare()  # names the circle, if there is one


def test_modules_of_one_room_import_each_other_in_no_circle():
    """Late imports and those for types alone are counted: who reads one reads the other."""
    beside = {}
    for path in MODULES:
        own = name_of_module(path)
        room = ".".join(own.split(".")[:2])
        beside[own] = {one for one in modules_imported(path)
                       if one == room or one.startswith(f"{room}.")} - {own}  # fmt: skip
    TopologicalSorter(beside).prepare()  # names the circle, if there is one


def test_every_room_says_what_lives_there_and_where_to_start():
    for room in (path for path in PACKAGE.rglob("*/") if list(path.glob("*.py"))):
        said = ast.get_docstring(tree(room / "__init__.py")) or ""
        start = re.search(r"(?i)start\b.*?\s`", said)
        assert said.count(".") >= 2 and start, f"{name_of(room)}/__init__.py says: {said}"


@each([*MODULES, *TESTS], name_of)
def test_files_and_functions_are_short(path):
    assert len(path.read_text("utf-8").splitlines()) <= 400
    assert [f"{f.name}: {length(f)} lines" for f in functions(path) if length(f) > 50] == []


def test_most_functions_are_a_few_lines():
    lengths = sorted(length(f) for path in MODULES for f in functions(path))
    assert lengths[len(lengths) // 2] <= 8, "median"
    assert lengths[len(lengths) * 9 // 10] <= 25, "nine in ten"


@each(MODULES, name_of)
def test_no_name_that_could_mean_anything(path):
    classes = [node.name for node in tree(path).body if isinstance(node, ast.ClassDef)]
    words = {word for name in [path.stem, *classes] for word in split(name)}
    vague = {f.name.strip("_") for f in functions(path)} & FORBIDDEN - {"data"}
    assert (words & FORBIDDEN) | vague == set()


def split(name):
    spaced = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    return spaced.strip("_").split("_")


def public_classes(module):
    found = inspect.getmembers(module, inspect.isclass)
    own = [one for name, one in found if one.__module__ == module.__name__]
    return [one for one in own if not one.__name__.startswith("_")]


def test_every_study_has_its_notebook_and_its_published_claims():
    for path in (PACKAGE / "studies").glob("[!_]*.py"):
        stem = path.stem.replace("_", "-")
        assert list((HOME / "notebooks").glob(f"[0-9][0-9]-{stem}.ipynb")), f"no {stem} notebook"
        assert (HOME / f"data/published/{path.stem}.toml").exists()


def test_every_workload_has_cases_of_real_output():
    for path in (PACKAGE / "workloads").glob("[!_]*.py"):
        module = importlib.import_module(f"labkit.workloads.{path.stem}")
        for public_class in public_classes(module):
            assert list((HOME / "tests/cases" / public_class.__name__).glob("*/stdout.txt")), (
                public_class.__name__
            )
