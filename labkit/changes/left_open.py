"""Hosts that are to be measured and not changed: nothing may be left in force on them."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from labkit.changes.journal import hello
from labkit.changes.lease import Owner
from labkit.changes.stages import on_all
from labkit.errors import Unreachable
from labkit.host import Host


def refuse_left(hosts: Mapping[str, Host], owner: Owner) -> None:
    """Refuse hosts on which a crash has left settings, or another process has some in force."""
    on_all({role: partial(_refuse, host, owner) for role, host in hosts.items()})


# One that cannot be asked is not measured either; a block of this process around ours is meant.
def _refuse(host: Host, owner: Owner) -> None:
    with suppress(Unreachable):
        greeting = hello(host)
        if greeting.lease is None or not greeting.lease.is_of(owner):
            greeting.refuse(host)
