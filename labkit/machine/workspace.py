"""Workspaces: folders of a reader's own studies, claims, workloads, settings, probes and events.

A workspace is found by `LABKIT_PATH`, by a `labkit.toml` in this folder or one above, or by the
entry points of an installed package (`labkit.studies`, `labkit.workloads`, ...). It is laid out as

    labkit.toml         needs = ">=0.1": the labkit that it was made for; may be empty
    studies/NAME.py     also workloads/, settings/, probes/, events/, imports/
    published/NAME.toml claims, with the figures of their document in NAME.csv
    notebooks/NAME.ipynb
    recorded/NAME.labkit
    profiles/NAME.toml  named sets of settings, for `labkit tune`

What is wrong with one of them is kept as an error to show, and the others go on.
"""

import functools
import importlib
import importlib.util
import os
import pkgutil
import stat
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from importlib import metadata
from importlib.machinery import FileFinder
from pathlib import Path
from types import ModuleType

from labkit.errors import BadInput, LabkitError
from labkit.machine.places import HOME, PACKAGE
from labkit.machine.written import Written

MARK = "labkit.toml"
VARIABLE = "LABKIT_PATH"
REGISTRIES = ("studies", "workloads", "settings", "probes", "events", "imports")
READING = threading.RLock()
"""Held while the standard output of the whole process goes elsewhere."""
HINT = f"give it to yourself (chown), or name it: {VARIABLE}=FOLDER"


@functools.cache
def _look() -> tuple[tuple[Path, ...], tuple[BadInput, ...]]:
    good: list[Path] = []
    bad: list[BadInput] = []
    for folder in dict.fromkeys((*_named_folders(), *_above(Path.cwd()))):
        try:
            _check(folder)
            good.append(folder)
        except BadInput as error:
            bad.append(error)
    return tuple(good), tuple(bad)


def workspaces() -> tuple[Path, ...]:
    """The workspaces of this process, nearest last; those that cannot be used are left out."""
    return _look()[0]


def nearest() -> Path | None:
    """The workspace around the folder of this process; None if there is none."""
    return next((above for above in _above(Path.cwd()) if above in workspaces()), None)


def use(folder: Path) -> None:
    """Add a workspace for this process and those that it starts, before registries are read."""
    words = [str(folder), *filter(None, [os.environ.get(VARIABLE)])]
    folder.mkdir(parents=True, exist_ok=True)
    os.environ[VARIABLE] = os.pathsep.join(words)
    _look.cache_clear()


def errors() -> tuple[BadInput, ...]:
    """Errors of the workspaces and packages that are left out."""
    return *_look()[1], *(odd for kind in REGISTRIES for odd in _entries(kind)[1])


def folders(kind: str) -> list[Path]:
    """The folders of this kind in all workspaces and installed packages."""
    inside = [folder / kind for folder in workspaces()]
    packages = _entries(kind)[0] if kind in REGISTRIES else [
        package.parent / kind for package in _entries("studies")[0]]  # fmt: skip
    return [folder for folder in (*inside, *packages) if folder.is_dir()]


def extend(path: list[str], kind: str) -> None:
    """Add the workspaces' modules of this kind to the path of labkit's package of that name.

    Where two have one name, Python takes labkit's; `twice` names the other.
    """
    path.extend(str(folder) for folder in folders(kind))


def twice(kind: str) -> list[BadInput]:
    """The modules of workspaces that nobody reaches, as another of this name comes first."""
    folder_of = {
        module.name: PACKAGE / kind for module in pkgutil.iter_modules([str(PACKAGE / kind)])
    }
    odd = []
    for folder in folders(kind):
        for module in pkgutil.iter_modules([str(folder)]):
            first_folder = folder_of.setdefault(module.name, folder)
            if first_folder != folder:
                problem = f"{folder / module.name}.py: {first_folder} has a {module.name} already"
                odd.append(BadInput(problem, hint="rename the file"))
    return odd


def is_inside(file: Path | str) -> bool:
    """Whether a file belongs to a workspace or to a package that brings such modules."""
    places = [*workspaces(), *(folder for kind in REGISTRIES for folder in _entries(kind)[0])]
    return any(Path(file).is_relative_to(place) for place in places)


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Read a module of `file`: what it raises is refused with the line.

    What it prints goes to standard error: standard output is for answers.
    """
    try:
        if not is_inside(file):
            yield
            return
        with READING, redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        at = place_of(error, file)
        if isinstance(error, LabkitError):
            raise BadInput(f"{at}: {error.what}", said=error.said, hint=error.hint) from error
        raise BadInput(f"{at}: {type(error).__name__}: {error}") from error


@contextmanager
def reading_own(file: Path) -> Iterator[None]:
    """Read as `reading` does what lies in a workspace; what comes with labkit answers itself."""
    with reading(file) if is_inside(file) else nullcontext():
        yield


def place_of(odd: BaseException, file: Path, line: int = 0) -> str:
    """The last line that was run in this file or in a workspace, as `file:line`.

    Where none was, it is that `line` of the file, or the one on which its study begins.
    """
    if isinstance(odd, SyntaxError) and odd.filename:
        return f"{odd.filename}:{odd.lineno}"
    run = [frame for frame in traceback.extract_tb(odd.__traceback__)
           if Path(frame.filename) == file or is_inside(frame.filename)]  # fmt: skip
    if run:
        return f"{run[-1].filename}:{run[-1].lineno}"
    lines = enumerate(file.read_text("utf-8").splitlines() if not line else (), 1)
    return f"{file}:{line or next((n for n, text in lines if text.startswith('study')), 1)}"


def modules(package: str, path: Sequence[str]) -> tuple[list[ModuleType], list[BadInput]]:
    """The public modules of a registry that can be read, and the errors of the others."""
    read: list[ModuleType] = []
    faults = []
    for module in pkgutil.iter_modules(path):
        if module.name[0] != "_" and isinstance(module.module_finder, FileFinder):
            try:
                with reading(Path(module.module_finder.path, f"{module.name}.py")):
                    read.append(importlib.import_module(f"{package}.{module.name}"))
            except BadInput as error:
                faults.append(error)
    return read, faults


def _named_folders() -> Iterator[Path]:
    for word in os.environ.get(VARIABLE, "").split(os.pathsep):
        if word:
            yield Path(word).expanduser().resolve()


def _above(folder: Path) -> Iterator[Path]:
    path = next((above for above in (folder, *folder.parents) if (above / MARK).is_file()), None)
    if path is not None and path != HOME:
        yield path.resolve()


# Modules are run. So a folder that labkit finds by itself must be this user's, as git insists too.
def _check(folder: Path) -> None:
    if not folder.is_dir():
        raise BadInput(f"{VARIABLE}: no folder {folder}")
    if folder not in set(_named_folders()):
        status = folder.stat()
        if status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH:
            raise BadInput(f"{folder / MARK} is not used: others may write there", hint=HINT)
    if (folder / MARK).is_file():
        _check_version(Written.read(folder / MARK, "workspace", "labkit new study NAME --in DIR"))


def _check_version(toml: Written) -> None:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    from labkit import __version__

    tables = toml.tables()
    toml.insist_known(tables, {"needs"})
    needs = tables.get("needs", "")
    try:
        specifier = SpecifierSet(needs)
    except (InvalidSpecifier, AttributeError, TypeError):
        raise toml.wrong(f"is no range of versions: {needs!r}", "needs",
                         hint='such as: needs = ">=0.1"') from None  # fmt: skip
    if not specifier.contains(__version__, prereleases=True):
        problem = f"it needs labkit {needs}, and this is {__version__}"
        raise toml.wrong(problem, "needs", hint="install that labkit")


# Every look reads what all installed packages say.
_all_entries = functools.cache(metadata.entry_points)


# To find a package runs the packages around it, which may fail in any way.
@functools.cache
def _entries(kind: str) -> tuple[list[Path], list[BadInput]]:
    good, bad = list[Path](), list[BadInput]()
    for entry in _all_entries().select(group=f"labkit.{kind}"):
        try:
            spec = importlib.util.find_spec(entry.value)
            places = (spec and spec.submodule_search_locations) or ()
            odd = "" if places else "no package of modules"
        except Exception as error:
            places, odd = (), f"{type(error).__name__}: {error}"
        good += map(Path, places)
        if odd:
            owner = entry.dist.name if entry.dist else "a package"
            problem = f"{owner}: entry point {entry.name} of labkit.{kind}: {entry.value}"
            bad.append(BadInput(problem, said=odd, hint=f"reinstall or remove {owner}"))
    return good, bad
