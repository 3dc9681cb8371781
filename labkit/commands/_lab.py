"""What the verbs about hosts share: which lab, which of its hosts."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from labkit.errors import BadInput, Unknown
from labkit.host import Host
from labkit.lab import Lab


def lab_flag(parser: argparse.ArgumentParser) -> None:
    """The flag that says which lab a verb is about."""
    parser.add_argument(
        "--lab", default="box", metavar="FILE", help="a lab.toml; without it, the lab in a box"
    )


def open_lab(asked: argparse.Namespace) -> Lab:
    """The lab that was asked for."""
    from labkit import where

    lab = where.open_lab(asked.lab)
    if lab is None:
        raise BadInput(f"{asked.lab}: results are no lab", hint="name a lab.toml")
    return lab


def chosen(lab: Lab, names: Sequence[str], *, everything: bool) -> Mapping[str, Host]:
    """The hosts of these roles; all of them only when that is said."""
    if bool(names) == everything:
        raise BadInput(
            "name hosts, or say --all", hint=f"hosts of {lab.name}: {', '.join(lab.hosts)}"
        )
    for name in names:
        if name not in lab.hosts:
            raise Unknown("host", name, lab.hosts)
    return {name: lab.hosts[name] for name in names} if names else lab.hosts
