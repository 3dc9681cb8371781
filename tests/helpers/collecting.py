"""Tests are found quickly: files left out are not imported, and no garbage is looked for."""

import gc
import re
from functools import cache

import pytest

NOT = re.compile(r"not (\w+)")
OF_ALL = re.compile(r"^pytestmark = (\[[^]]*\]|.*)", re.MULTILINE)
MARK = re.compile(r"pytest\.mark\.(\w+)")


def left_out(asked):
    """The marks that `-m` leaves out, where it does nothing else: "not slow and not box"."""
    parts = [NOT.fullmatch(part.strip()) for part in asked.split(" and ")]
    return {part[1] for part in parts if part} if all(parts) else set()


@cache
def marks(path):
    """Marks of all tests of a file: those of its `pytestmark`."""
    match = OF_ALL.search(path.read_text("utf-8"))
    return frozenset(MARK.findall(match[1])) if match else frozenset()


# With all its files, a folder's `conftest.py` is left out, too.
def pytest_ignore_collect(collection_path, config):
    """Leave out a file all of whose tests are left out."""
    out = left_out(config.getoption("markexpr"))
    files = collection_path.rglob("test_*.py") if collection_path.is_dir() else [collection_path]
    return (out and wholly(out, files)) or None


def wholly(out, files):
    """Whether there are files, all of which are left out; the first that is not ends the search."""
    found = False
    for file in files:
        found = True
        if not (file.name.startswith("test_") and marks(file) & out):
            return False
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_collection():
    """Modules and tests stay to the end; to look for garbage among them takes seconds."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    """From here on nobody looks at them again."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure():
    """Nor at the end, where pytest looks five times in each process: seconds of one CPU."""
    gc.freeze()
