"""The questions to ask, one file each; the folder is the registry.

Start with `lat_ping.py`.
"""

from __future__ import annotations

import importlib
import pkgutil
import traceback
from pathlib import Path

from labkit.box import topology
from labkit.errors import BadInput, LabkitError, Unknown
from labkit.study import Study


def names() -> list[str]:
    """The names of all studies."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_")


def find(name: str) -> Study:
    """The study of that name; `lat-ping` is read as `lat_ping`.

    What is wrong in its file is refused with the line.
    """
    stem = name.replace("-", "_")
    if stem not in names():
        raise Unknown("study", name, names())
    try:
        module = importlib.import_module(f"{__name__}.{stem}")
        study = getattr(module, "study", None)
        _insist(study, stem)
    except Exception as odd:
        at = _place(odd, stem)
        if isinstance(odd, LabkitError):
            raise BadInput(f"{at}: {odd.what}", said=odd.said, hint=odd.hint) from odd
        raise BadInput(f"{at}: {type(odd).__name__}: {odd}") from odd
    assert isinstance(study, Study)
    return study


def readable() -> tuple[list[Study], list[BadInput]]:
    """The studies that can be read, and the errors of the others."""
    read: list[Study] = []
    broken = []
    for name in names():
        try:
            read.append(find(name))
        except BadInput as odd:
            broken.append(odd)
    return read, broken


def _insist(study: object, stem: str) -> None:
    if not isinstance(study, Study):
        raise BadInput("it has no study", hint="study = Study(...)")
    if study.name != stem:
        raise BadInput(f"the study is called {study.name!r}, and its file {stem}.py",
                       hint="results, claims and notebook are found by that name")  # fmt: skip
    if study.topology:
        topology.find(study.topology)


# The last line that was run in the folder of studies; else that on which the study begins.
def _place(odd: BaseException, stem: str) -> str:
    if isinstance(odd, SyntaxError) and odd.filename:
        return f"{odd.filename}:{odd.lineno}"
    folders = {Path(folder) for folder in __path__}
    run = [frame for frame in traceback.extract_tb(odd.__traceback__)
           if Path(frame.filename).parent in folders and frame.filename != __file__]  # fmt: skip
    if run:
        return f"{run[-1].filename}:{run[-1].lineno}"
    paths = (Path(folder, f"{stem}.py") for folder in __path__)
    file = next(path for path in paths if path.is_file())
    lines = file.read_text("utf-8").splitlines()
    return f"{file}:{next((n for n, line in enumerate(lines, 1) if line.startswith('study')), 1)}"


def asks(study: Study) -> str:
    """Return the title of a study, marked if it is a draft."""
    return f"{study.title} (draft)" if study.draft else study.title


def markdown() -> str:
    """The table of all studies for the README."""
    rows = [
        f"| `{s.name}` | {asks(s)} | {len(s.conditions)} | {len(s.claims)} | {s.source} |"
        for s in readable()[0]
    ]
    return "\n".join(["| study | what it asks | conditions | claims | document |",
                      "|---|---|---|---|---|", *rows])  # fmt: skip
