"""Which studies and which tests a change can have touched, as git tells it."""

import ast
import os
import subprocess
from functools import cache
from pathlib import Path

from trees import nodes

from labkit import studies

HOME = Path(__file__).resolve().parents[2]
PACKAGE = HOME / "labkit"
PAIR = "pair"
ALWAYS = "lat_ping"
"""Its quick run is always made: what it imports is what all of them stand on."""
LANDED = ("origin/main", "main")
UNCHANGED = "what it is about has not changed; make torture runs it"


def named(path):
    """What a file imports, wherever in it: modules, and what it takes from them."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


@cache
def imported(path):
    """The files of labkit that this one imports."""
    return {file for name in named(path) if (file := file_of(name))}


def file_of(name):
    """The file of a module of labkit, or None."""
    place = HOME.joinpath(*name.split("."))
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if name.startswith("labkit.") and file.is_file()), None)


@cache
def reached(study):
    """All files that the module of a study imports, and those that they import."""
    found, left = set(), {file_of(f"labkit.studies.{study}")}
    while left:
        path = left.pop()
        found.add(path)
        left |= imported(path) - found
    return found


def parts(study):
    """What is a study's own: what it imports and lat_ping does not, and the data beside that."""
    own = reached(study) - (reached(ALWAYS) if study != ALWAYS else set())
    beside = {
        file for path in own for file in path.parent.iterdir()
        if file.suffix not in ("", ".py") and file.name in path.read_text("utf-8")
    }  # fmt: skip
    stem = study.replace("_", "-")
    named = [*HOME.glob(f"notebooks/[0-9][0-9]-{stem}.ipynb"), *HOME.glob(f"data/*/{study}.toml")]
    topology = PACKAGE / f"box/topologies/{studies.find(study).topology or PAIR}.toml"
    return {str(path.relative_to(HOME)) for path in {*own, *beside, *named, topology}}


def git(*words):
    """What git says, or None."""
    result = subprocess.run(("git", *words), cwd=HOME, capture_output=True, text=True)
    return None if result.returncode else result.stdout.strip()


def since():
    """The commit to compare with: $LABKIT_SINCE, or what was landed before what is here now."""
    if asked := os.environ.get("LABKIT_SINCE"):
        return asked
    bases = [git("merge-base", "HEAD", landed) for landed in LANDED]
    here = git("rev-parse", "HEAD")
    found = [base for base in bases if base and base != here]
    before = git("rev-parse", "--verify", "-q", "main@{1}") if git("reflog", "main") else None
    return next(iter(found), None) or before or "HEAD~1"


@cache
def changed_files():
    """The files that differ from that commit, those not committed too; None if git cannot tell."""
    differ = git("diff", "--name-only", since())
    new = git("ls-files", "--others", "--exclude-standard")
    return None if differ is None else {*differ.splitlines(), *(new or "").splitlines()}


def whole(config):
    """Whether no file or folder of tests was asked for; whoever names one wants it to run."""
    return {config.rootpath / arg for arg in config.args} == {HOME / "tests"}


def meant(item):
    """Whether a slow test is about something that has changed; any other is always meant."""
    marks = [*item.iter_markers("when_changed")] if item.get_closest_marker("slow") else []
    file = item.nodeid.partition("::")[0]
    if not marks or changed_files() is None:
        return True
    return touched(file, tuple(place for mark in marks for place in mark.args))


def touched(file, places):
    """Whether one of these files and folders has changed, or what the test itself is made of."""
    return any(
        changed_file.startswith(places) or changed_file in made_of(file)
        for changed_file in changed_files()
    )


@cache
def made_of(file):
    """The file of a test, the `conftest.py` beside it, and the helpers that it imports."""
    beside = f"{Path(file).parent}/conftest.py"
    return {file, beside, *(f"tests/helpers/{name}.py" for name in named(HOME / file))}


def changed():
    """The studies whose own parts have changed, and `lat_ping`."""
    files = changed_files() or set()
    return [name for name in studies.names() if name == ALWAYS or parts(name) & files]
