"""The questions to ask, one file each; the folder is the registry.

Start with `lat_ping.py`.
"""

import importlib
import pkgutil
from collections.abc import Iterable
from pathlib import Path

from labkit.box import topology
from labkit.errors import BadInput, Unknown
from labkit.machine import workspace
from labkit.machine.places import HOME, PACKAGE, first_file
from labkit.study import Study

workspace.extend(__path__, "studies")


def names() -> list[str]:
    """The names of all studies."""
    return _names_in(__path__)


def built_in() -> list[str]:
    """The names of the studies that come with labkit; workspaces may have more."""
    return _names_in([str(PACKAGE / "studies")])


def _names_in(path: Iterable[str]) -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(path) if module.name[0] != "_")


def find(name: str) -> Study:
    """The study of that name; `lat-ping` is read as `lat_ping`.

    What is wrong in its file is refused with the line.
    """
    stem = name.replace("-", "_")
    if stem not in names():
        raise Unknown("study", name, names(), "labkit studies")
    with workspace.reading(file_of(stem)):
        study = getattr(importlib.import_module(f"{__name__}.{stem}"), "study", None)
        _insist(study, stem)
    assert isinstance(study, Study)
    return study


def file_of(stem: str) -> Path:
    """The file that declares a study, or would."""
    files = [Path(folder, f"{stem}.py") for folder in __path__]
    return first_file(files) or files[0]


def readable() -> tuple[list[Study], list[BadInput]]:
    """The studies that can be read, and the errors of the others."""
    read: list[Study] = []
    broken = [*workspace.errors(), *workspace.twice("studies")]
    for name in names():
        try:
            read.append(find(name))
        except BadInput as error:
            broken.append(error)
    return read, broken


def _insist(study: object, stem: str) -> None:
    if not isinstance(study, Study):
        raise BadInput("it has no study", hint="study = Study(...)")
    if study.name != stem:
        raise BadInput(f"the study is called {study.name!r}, and its file {stem}.py",
                       hint="results, claims and notebook are found by that name")  # fmt: skip
    if study.topology:
        topology.find(study.topology)


def asks(study: Study) -> str:
    """Return the title of a study, marked if it is a draft."""
    return f"{study.title} (draft)" if study.draft else study.title


def markdown() -> str:
    """The table of all studies for the README."""
    rows = [
        f"| {_linked(s.name)} | {asks(s)} | {len(s.conditions)} | {len(s.claims)} | {s.source} |"
        for s in map(find, built_in())
    ]
    return "\n".join(["| study | what it asks | conditions | claims | document |",
                      "|---|---|---|---|---|", *rows])  # fmt: skip


def _linked(name: str) -> str:
    books = (HOME / "notebooks").glob(f"[0-9][0-9]-{name.replace('_', '-')}.ipynb")
    return next((f"[`{name}`](notebooks/{book.name})" for book in books), f"`{name}`")
