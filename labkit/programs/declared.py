"""Programs and who calls them: each module names its own in `PROGRAMS`, a tuple of words."""

import ast
import importlib
import re
from collections.abc import Iterable
from pathlib import Path

from labkit.errors import BadInput

NAME = "PROGRAMS"
SHELL = re.compile(r"^# programs: (.+)$", re.MULTILINE)


def declared(file: Path) -> tuple[str, ...]:
    """The programs that a file declares; it is read, not run.

    A shell script does so in a comment, `# programs: ip flock`.
    """
    text = file.read_text("utf-8")
    if file.suffix != ".py":
        match = SHELL.search(text)
        return tuple(match[1].split()) if match else ()
    if NAME not in text:
        return ()
    return next((_words(node, file) for node in ast.parse(text).body if _is_ours(node)), ())


def declared_under(places: Iterable[Path]) -> list[str]:
    """The programs that these files declare, and those in these folders; each once, sorted."""
    programs: set[str] = set()
    for place in places:
        if not place.exists():
            raise BadInput(f"there is no {place}", hint="name files and folders of modules")
        files = [place] if place.is_file() else [*place.rglob("*.py"), *place.rglob("*.sh")]
        programs.update(word for file in files for word in declared(file))
    return sorted(programs)


def of_class(kind: type) -> tuple[str, ...]:
    """The programs that the module of a class declares."""
    return tuple(getattr(importlib.import_module(kind.__module__), NAME, ()))


def _is_ours(node: ast.stmt) -> bool:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name == NAME
    return False


def _words(node: ast.stmt, file: Path) -> tuple[str, ...]:
    assert isinstance(node, ast.Assign | ast.AnnAssign)
    try:
        words = ast.literal_eval(node.value) if node.value else None
    except ValueError:
        words = None
    if not isinstance(words, tuple) or not all(isinstance(word, str) for word in words):
        raise BadInput(f"{file}: {NAME} is a tuple of words", hint=f'such as {NAME} = ("ping",)')
    return words
