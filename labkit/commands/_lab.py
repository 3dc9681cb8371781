"""The common part of the verbs about hosts: which lab, and which of its hosts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.commands._verb import busy
from labkit.errors import BadInput, LabkitError, Unknown

if TYPE_CHECKING:
    from labkit.box import BoxStatus
    from labkit.host import Host
    from labkit.lab import Lab
    from labkit.setting import Setting


def lab_flag(parser: argparse.ArgumentParser, box: str = "the lab in a box, if it is up") -> None:
    """The flag that says which lab a verb is about, and what becomes of the `box`."""
    parser.add_argument("--lab", default="box", metavar="FILE", help=f"a lab.toml (default: {box})")


def on_flag(parser: argparse.ArgumentParser) -> None:
    """The flag that says which hosts typed settings are for."""
    parser.add_argument(
        "--on", action="append", metavar="ROLE", default=[],
        help="the host of the settings, a role of the lab; repeatable (default: the setting's own)",
    )  # fmt: skip


def settings_of(texts: Sequence[str], roles: Sequence[str]) -> list[Setting]:
    """The settings that were typed, for each of these roles, or each for its own usual role."""
    from labkit.commands._setting import setting_of

    roles_or_usual: Sequence[str | None] = roles or [None]
    settings = [setting_of(text, role) for role in roles_or_usual for text in texts]
    return list(dict.fromkeys(settings))


def open_lab(args: argparse.Namespace, topology: str = "") -> Lab:
    """The lab that was asked for; a box is made of `topology` when none is up."""
    is_new = _makes(args, topology)
    lab = _open(args, topology, is_new)
    if is_new:
        down = f"labkit box down --name {topology}" if topology else "labkit box down"
        print(f"the box {topology or 'lab'} stays up until `{down}`", file=sys.stderr)
    return lab


@contextmanager
def lab_for_now(args: argparse.Namespace, topology: str = "") -> Iterator[Lab]:
    """Open the lab as `open_lab` does; a box that was made for it is down again afterwards."""
    from labkit import box

    is_new = _makes(args, topology)
    try:
        yield _open(args, topology, is_new)
    finally:
        if is_new:
            box.down(topology or "lab")
            print(f"the box {topology or 'lab'} is down again", file=sys.stderr)


def _makes(args: argparse.Namespace, topology: str) -> bool:
    return bool(args.lab == "box" and not _is_up(topology or "lab"))


def _open(args: argparse.Namespace, topology: str, is_new: bool) -> Lab:
    from labkit.running import open_lab as where

    if is_new:
        from labkit.pages.terminal import paragraph

        print(paragraph(f"making {_sizes(topology)}"), file=sys.stderr)
    with busy("bringing the box up" if is_new else f"reading {args.lab}"):
        lab = where.open_lab(args.lab, topology)
    if lab is None:
        raise BadInput(f"{args.lab} names results, not a lab", hint="name a lab.toml")
    return lab


def _sizes(topology: str) -> str:
    from labkit.box import room
    from labkit.box import topology as topologies
    from labkit.box.box import DEFAULT
    from labkit.box.machine import Machine

    machine = Machine.read()
    return room.planned(topologies.find(topology or DEFAULT, machine), machine)


def _is_up(name: str) -> bool:
    from labkit import box

    return box.status(name).state == "up"


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
        for name, hosts in up.items()
        for role, host in hosts.items()
    }


# One box that cannot be looked at keeps nobody from the others.
def _hosts_of(status: BoxStatus) -> Mapping[str, Host]:
    from labkit.lab import Lab

    if not status.lab:
        print(f"box {status.name} is {status.state}, so it is skipped", file=sys.stderr)
        return {}
    if not os.access(Path(status.lab).with_name("key"), os.R_OK):
        print(f"box {status.name} is another user's, so it is skipped", file=sys.stderr)
        return {}
    try:
        return Lab.read(Path(status.lab)).hosts
    except LabkitError as odd:
        print(f"box {status.name} is skipped: {odd}", file=sys.stderr)
        return {}


def looked_at(args: argparse.Namespace, hosts: Mapping[str, Host]) -> str:
    """Describe the result of `hosts_there` in words."""
    if args.lab != "box":
        return f"looked at {args.lab}: {', '.join(hosts)}"
    sentence = f"looked at the box: {', '.join(hosts)}" if hosts else "no box is up (labkit box up)"
    return f"{sentence}; for hosts of your own: --lab FILE"


def one_there(args: argparse.Namespace, name: str) -> Host:
    """One of `hosts_there`."""
    hosts = hosts_there(args)
    if name not in hosts:
        raise _nobody(args, name, hosts)
    return hosts[name]


def _nobody(args: argparse.Namespace, name: str, hosts: Mapping[str, Host]) -> BadInput:
    if hosts:
        return Unknown("host", name, hosts)
    return BadInput(f"no host {name}: {looked_at(args, hosts)}")


def chosen(
    args: argparse.Namespace, names: Sequence[str], *, all_hosts: bool
) -> Mapping[str, Host]:
    """The hosts of `hosts_there` with these names; all of them only if that is said."""
    hosts = hosts_there(args)
    if bool(names) == all_hosts:
        problem = "name hosts or say --all, not both"
        raise BadInput(
            problem if names else "name hosts, or say --all", hint=looked_at(args, hosts)
        )
    for name in names:
        if name not in hosts:
            raise _nobody(args, name, hosts)
    return {name: hosts[name] for name in names} if names else hosts
