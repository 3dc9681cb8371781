"""The common part of the verbs about hosts: which lab, and which of its hosts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.commands._verb import Argument, arg, busy
from labkit.errors import BadInput, LabkitError, Unknown
from labkit.pages.terminal import ProgressLine, paragraph

if TYPE_CHECKING:
    from labkit.box import BoxStatus
    from labkit.host import Host
    from labkit.lab import Lab
    from labkit.setting import Setting


def lab(box: str = "the lab in a box, if it is up", names: str = "--lab") -> Argument:
    """The option that says which lab a verb is about, and what becomes of the `box`."""
    return arg(names, "FILE", f"a lab.toml (default: {box})", default="box")


ON = arg(
    "--on", "ROLE",
    "the host of the settings, a role of the lab; repeatable (default: the setting's own)",
    action="append",
)  # fmt: skip


WHERE = arg(
    "--where --lab", "PLACE", "box (default), or the lab.toml of your own hosts", default="box"
)


def settings_of(texts: Sequence[str], roles: Sequence[str]) -> list[Setting]:
    """The settings that were typed, for each of these roles, or each for its own usual role."""
    from labkit.commands._setting import setting_of

    roles_or_usual: Sequence[str | None] = roles or [None]
    settings = [setting_of(text, role) for role in roles_or_usual for text in texts]
    return list(dict.fromkeys(settings))


def open_lab(args: argparse.Namespace, topology: str = "") -> Lab:
    """The lab that was asked for; a box is made of `topology` when none is up."""
    is_new = _is_new(args, topology)
    lab = _open(args, topology, is_new)
    if is_new:
        down = f"labkit box down --name {topology}" if topology else "labkit box down"
        print(f"the box {topology or 'lab'} stays up until `{down}`", file=sys.stderr)
    return lab


@contextmanager
def lab_measured(
    place: str, topology: str, about: str, remark: str = ""
) -> Iterator[tuple[Lab, ProgressLine]]:
    """A lab that is open for a measurement of its own, and a line that says what is done."""
    from labkit.running.open_lab import check_place, is_stored, open_lab

    if is_stored(place):
        problem = f"{about} on a lab, and {place!r} is stored results"
        raise BadInput(problem, hint=f"name a lab.toml, or the box{remark}")
    check_place(place)
    with ProgressLine() as line:
        line.say(f"opening {place}")
        lab = open_lab(place, topology)
        assert lab is not None  # stored results were refused
        with closing(lab):
            yield lab, line


@contextmanager
def lab_for_now(args: argparse.Namespace, topology: str = "") -> Iterator[Lab]:
    """Open the lab as `open_lab` does; a box that was made for it is down again afterwards."""
    from labkit import box

    is_new = _is_new(args, topology)
    try:
        yield _open(args, topology, is_new)
    finally:
        if is_new:
            box.down(topology or "lab")
            print(f"the box {topology or 'lab'} is down again", file=sys.stderr)


def _is_new(args: argparse.Namespace, topology: str) -> bool:
    from labkit import box

    return bool(args.lab == "box" and box.status(topology or "lab").state != "up")


def _open(args: argparse.Namespace, topology: str, is_new: bool) -> Lab:
    from labkit.box import room
    from labkit.box import topology as topologies
    from labkit.box.box import DEFAULT
    from labkit.box.machine import Machine
    from labkit.running import open_lab as where

    if is_new:
        machine = Machine.read()
        sizes = room.planned(topologies.find(topology or DEFAULT, machine), machine)
        print(paragraph(f"making {sizes}"), file=sys.stderr)
    with busy("bringing the box up" if is_new else f"reading {args.lab}"):
        lab = where.open_lab(args.lab, topology)
    if lab is None:
        raise BadInput(f"{args.lab} names results, not a lab", hint="name a lab.toml")
    return lab


def hosts_there(args: argparse.Namespace) -> dict[str, Host]:
    """The hosts of the lab that was asked for; without one, of the boxes that are up: none is made.

    Where several boxes are up, a host is called BOX/HOST, but those of the box `lab` by their name.
    """
    from labkit import box

    if args.lab != "box":
        return dict(open_lab(args).hosts)
    statuses = [(name, box.status(name)) for name in box.names()]
    up = {name: hosts for name, status in statuses if (hosts := _hosts_of(status))}
    alone = len(up) == 1
    return {
        role if alone or name == "lab" else f"{name}/{role}": host
        for name, hosts in up.items() for role, host in hosts.items()
    }  # fmt: skip


# One box that cannot be looked at keeps nobody from the others.
def _hosts_of(status: BoxStatus) -> Mapping[str, Host]:
    from labkit.lab import Lab

    if not status.lab:
        reason = f"is {status.state}, so it is skipped"
    elif not os.access(Path(status.lab).with_name("key"), os.R_OK):
        reason = "is another user's, so it is skipped"
    else:
        try:
            return Lab.read(Path(status.lab)).hosts
        except LabkitError as odd:
            reason = f"is skipped: {odd}"
    print(f"box {status.name} {reason}", file=sys.stderr)
    return {}


def looked_at(args: argparse.Namespace, hosts: Mapping[str, Host]) -> str:
    """Describe the result of `hosts_there` in words."""
    if args.lab != "box":
        return f"looked at {args.lab}: {', '.join(hosts)}"
    sentence = f"looked at the box: {', '.join(hosts)}" if hosts else "no box is up (labkit box up)"
    return f"{sentence}; for hosts of your own: --lab FILE"


def one_there(args: argparse.Namespace, name: str) -> Host:
    """One of `hosts_there`."""
    return _named(args, [name], hosts_there(args))[name]


def chosen(
    args: argparse.Namespace, names: Sequence[str], *, all_hosts: bool
) -> Mapping[str, Host]:
    """The hosts of `hosts_there` with these names; all of them only if that is said."""
    hosts = hosts_there(args)
    if bool(names) == all_hosts:
        problem = "name hosts or say --all, not both" if names else "name hosts, or say --all"
        raise BadInput(problem, hint=looked_at(args, hosts))
    return _named(args, names, hosts) if names else hosts


def _named(
    args: argparse.Namespace, names: Sequence[str], hosts: Mapping[str, Host]
) -> Mapping[str, Host]:
    for name in names:
        if not hosts:
            raise BadInput(f"no host {name}: {looked_at(args, hosts)}")
        if name not in hosts:
            raise Unknown("host", name, hosts)
    return {name: hosts[name] for name in names}
