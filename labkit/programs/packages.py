"""Programs and who calls them, and the packages that bring them on each system.

Each module names those that it calls in `PROGRAMS`, a tuple of words.
"""

import ast
import importlib
import platform
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from glob import glob
from pathlib import Path
from typing import Any

from labkit.errors import BadInput, Unknown

TABLE = Path(__file__).with_name("packages.toml")
SCRIPT = Path(__file__).with_name("install.sh")
"""Installs packages by the system's own package tool, and starts no service."""
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Folders to search for programs: a plain user's PATH, and root's after su, lack the sbin part."""
SYSTEMS = {
    "debian": ("apt-get", "install", "-y", "--no-install-recommends"),
    "ubuntu": ("apt-get", "install", "-y", "--no-install-recommends"),
    "fedora": ("dnf", "install", "-y"),
    "suse": ("zypper", "--non-interactive", "install"),
    "alpine": ("apk", "add"),
}
"""The systems of the table, and how each installs packages."""
OLDER = ("debian12",)
"""Releases that call some packages otherwise than their system does today."""
NAME = "PROGRAMS"
SHELL = re.compile(r"^# programs: (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Package:
    """One row of the table, named as Debian calls it."""

    name: str
    programs: tuple[str, ...]
    names: Mapping[str, tuple[str, ...]]
    """By system, if it has another name there; an empty tuple if the system lacks it."""
    source: str = ""
    """The part of the archive that has it, where that is not free."""
    instead: str = ""
    later: bool = False
    """Whether it is large and of a few studies: `labkit prepare STUDY` brings it."""

    def on(self, system: str) -> tuple[str, ...]:
        """Its names on a system; empty where the system has no such package."""
        return self.names.get(system, self.names.get(_today(system), (self.name,)))


def _today(system: str) -> str:
    return system.rstrip("0123456789")


def _row(name: str, row: Mapping[str, str]) -> Package:
    packages_of = {
        system: tuple(row[system].split()) for system in (*SYSTEMS, *OLDER) if system in row
    }
    if beside := tuple(row.get("with", "").split()):
        packages_of = {**dict.fromkeys(("debian", "ubuntu"), (name, *beside)), **packages_of}
    programs = tuple(row["programs"].split())
    return Package(name, programs, packages_of, row.get("source", ""), row.get("instead", ""),
                   "later" in row)  # fmt: skip


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(TABLE.read_text("utf-8"))


@cache
def packages() -> tuple[Package, ...]:
    """All rows of the table."""
    return tuple(_row(name, row) for name, row in _table()["packages"].items())


@cache
def unpackaged() -> Mapping[str, str]:
    """Programs that no package brings, and where one gets them."""
    return {**_table()["unpackaged"]}


@cache
def _by_program() -> Mapping[str, Package]:
    return {program: package for package in packages() for program in package.programs}


def package_of(program: str) -> Package:
    """The package that brings a program."""
    if program not in _by_program():
        raise Unknown("program", program, _by_program())
    return _by_program()[program]


def installable(program: str) -> bool:
    """Whether some package brings it."""
    return program in _by_program()


def comes_later(program: str) -> bool:
    """Whether it is left to those who want the studies that call it."""
    return installable(program) and package_of(program).later


def absent(programs: Iterable[str]) -> list[str]:
    """The given programs that this machine does not have."""
    return [
        word
        for word in programs
        if not (glob(word) if word.startswith("/") else shutil.which(word, path=SEARCH_PATH))
    ]


def names_of(programs: Iterable[str], system: str, free: bool = False) -> list[str]:
    """The packages that bring these programs on a system, each once; with `free`, those alone."""
    rows = [package_of(program) for program in programs if installable(program)]
    return sorted({name for row in rows if not (free and row.source) for name in row.on(system)})


def install_words(system: str = "") -> tuple[str, ...]:
    """The command to install packages on a system: the named one, else this one, else Debian."""
    return SYSTEMS[_today(system or this_system() or "debian")]


def system_of(release: Mapping[str, str]) -> str:
    """The system of the table, or older release of one, that an os-release describes; else ""."""
    words = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    like = {"rhel": "fedora", "centos": "fedora", "sles": "suse", "opensuse": "suse"}
    systems = (like.get(word, word.partition("-")[0]) for word in words)
    name = next((like.get(word, word) for word in systems if like.get(word, word) in SYSTEMS), "")
    older = f"{name}{release.get('VERSION_ID', '')}"
    return older if older in OLDER else name


def os_release(line: str) -> Mapping[str, str]:
    """Read the line of a host: the number of its release, its name, and what it is like."""
    version, _, description = line.partition(" ")
    name, _, like = description.partition(" ")
    return {"VERSION_ID": version, "ID": name, "ID_LIKE": like.strip()}


def brings(*programs: str, system: str = "") -> str:
    """Source of these programs on a system, else on Debian: a command for root, or the maker."""
    if product := next((unpackaged()[word] for word in programs if word in unpackaged()), ""):
        return product
    system = system or "debian"
    rows = [package_of(program) for program in programs]
    parts = "".join(sorted({f", of Debian's component {row.source}" for row in rows if row.source}))
    return shlex.join([*install_words(system), *names_of(programs, system)]) + parts


def this_system() -> str:
    """The system of the table that this machine runs."""
    try:
        return system_of(platform.freedesktop_os_release())
    except OSError:
        return ""


# --- what modules declare ------------------------------------------------------------------------


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
