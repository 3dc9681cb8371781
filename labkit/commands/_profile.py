"""A profile: a named set of settings, in a file `profiles/NAME.toml`.

    what = "the same again: one clock, no boost"
    settings = ["Mtu(9000)"]        made, or the profile is refused
    optional = ["Turbo(False)"]     made where the host can take them

Those that come with labkit lie in `data/profiles`; a workspace has more.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.commands._lab import settings_of
from labkit.errors import Unknown
from labkit.machine import workspace
from labkit.machine.places import HOME, first_file
from labkit.machine.written import Written

if TYPE_CHECKING:
    from labkit.setting import Setting

LISTS = ("settings", "optional")
HINT = "`labkit tune` lists the profiles; a path ends in .toml"


@dataclass(frozen=True)
class Profile:
    """A set of settings, and what it is for."""

    name: str
    what: str
    texts: dict[str, list[str]]
    written: Written

    def settings(self, kind: str, role: str) -> tuple[Setting, ...]:
        """The settings of one of its lists, for the host with this role."""
        with self.written.locating(kind):
            return tuple(settings_of(self.texts[kind], [role]))


def profiles() -> list[Path]:
    """The files of all profiles, by name; those of workspaces replace others of their name."""
    folders = [HOME / "data/profiles", *workspace.folders("profiles")]
    files = {file.stem: file for folder in folders for file in sorted(folder.glob("*.toml"))}
    return [files[name] for name in sorted(files)]


def find_profile(name: str) -> Profile:
    """The profile of that name, or of that file; what is wrong in it is refused with its line."""
    if name.endswith(".toml"):
        return read_profile(Path(name).expanduser())
    file = first_file(file for file in profiles() if file.stem == name)
    if file is None:
        raise Unknown("profile", name, [file.stem for file in profiles()])
    return read_profile(file)


def read_profile(file: Path) -> Profile:
    """Read one file."""
    toml = Written.read(file, "profile", HINT)
    tables = toml.tables()
    toml.insist_known(tables, {"what", *LISTS})
    texts = {kind: _texts(toml, tables, kind) for kind in LISTS}
    if not any(texts.values()):
        raise toml.wrong("has no settings", hint='such as: settings = ["Mtu(9000)"]')
    return Profile(file.stem, str(tables.get("what", "")), texts, toml)


def _texts(toml: Written, tables: dict[str, Any], kind: str) -> list[str]:
    texts = tables.get(kind, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise toml.wrong("must be a list of texts", kind, hint=f'such as: {kind} = ["Mtu(9000)"]')
    return texts
