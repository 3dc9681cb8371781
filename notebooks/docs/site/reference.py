"""Makes the pages of the reference: what notebooks import, the nouns, the registries, commands."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from labkit.cli import parser as all_parsers
from labkit.machine.places import HOME, PACKAGE

FOLDERS = {
    "settings": "What a study changes on a host. Each is read back, and put back at the end.",
    "workloads": "What makes load and measures. `run` keeps the tool's text, `parse` reads it.",
    "probes": "What a workload looks at before and after its work.",
    "events": "What happens in the middle of a run.",
}
"""The registries, and what a page says above each."""
NO_NOUNS = {"__init__", "__main__", "cli"}
IMPORTED = re.compile(r"^from (labkit[\w.]*) import (.+)$", re.MULTILINE)


def pages() -> dict[str, str]:
    """All pages of the reference by their names."""
    written = {
        "notebooks": _notebooks(),
        "nouns": _modules("The nouns", "Each noun of labkit is a module at its root.", _nouns()),
        **{name: _folder(name, said) for name, said in FOLDERS.items()},
        "commands": _commands(),
    }
    return {**written, "index": _index(list(written))}


def _index(names: Sequence[str]) -> str:
    said = "What `labkit` offers, by its own docstrings. Names that begin with `_` are not public."
    listed = textwrap.indent("\n".join(names), "   ")
    return f"{_heading('Reference', '=')}{said}\n\n.. toctree::\n   :maxdepth: 1\n\n{listed}\n"


def _heading(words: str, line: str) -> str:
    return f"{words}\n{line * len(words)}\n\n"


def _notebooks() -> str:
    said = "All that the notebooks import, by module."
    parts = [_heading("In notebooks", "="), f"{said}\n"]
    for module, names in sorted(_imported().items()):
        parts.append(f"\n{_heading(module, '-')}")
        parts += [_directive(module, name) for name in sorted(names)]
    return "".join(parts)


def _imported() -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path in (HOME / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        for module, names in IMPORTED.findall(code):
            found[module] |= set(names.replace(" ", "").split(","))
    return found


def _kind(one: object) -> str:
    if inspect.isclass(one) or inspect.ismodule(one):
        return "class" if inspect.isclass(one) else "module"
    return "function" if callable(one) else "data"


def _imported_from(module: str, name: str) -> object:
    whole = importlib.import_module(module)
    if hasattr(whole, name):
        return getattr(whole, name)
    return importlib.import_module(f"{module}.{name}")


# Some stand on another page too, where the index leads to.
def _directive(module: str, name: str) -> str:
    one = _imported_from(module, name)
    kind = _kind(one)
    members = "   :members:\n" if kind in ("class", "module") else ""
    return f".. auto{kind}:: {module}.{name}\n   :no-index:\n{members}\n"


def _nouns() -> list[str]:
    return [f"labkit.{file.stem}" for file in sorted(PACKAGE.glob("*.py"))
            if file.stem not in NO_NOUNS]  # fmt: skip


def _folder(name: str, said: str) -> str:
    files = sorted((PACKAGE / name).glob("[!_]*.py"))
    return _modules(name.capitalize(), said, [f"labkit.{name}.{file.stem}" for file in files])


def _modules(title: str, said: str, names: Sequence[str]) -> str:
    parts = [_heading(title, "="), f"{said}\n"]
    for name in names:
        parts.append(f"\n{_heading(name.rpartition('.')[2].replace('_', ' '), '-')}")
        parts.append(f".. automodule:: {name}\n   :members:\n")
    return "".join(parts)


def _commands() -> str:
    said = "What `labkit COMMAND --help` prints."
    parts = [_heading("Commands", "="), f"{said}\n"]
    for parser in _verbs(all_parsers()):
        shown = textwrap.indent(parser.format_help(), "   ")
        parts.append(f"\n{_heading(parser.prog, '-')}.. code-block:: text\n\n{shown}")
    return "".join(parts)


def _verbs(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _verbs(inner)
