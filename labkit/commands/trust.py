"""`labkit trust`: first contact with a host; its key is shown, and kept when you say so."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.commands._verb import JSON, arg, busy, tell, verb
from labkit.errors import BadInput, HostError, HostKeyRefused, LabkitError

if TYPE_CHECKING:
    from labkit.lab import Lab
    from labkit.ssh.address import Address, Target
    from labkit.ssh.trust import Shown

PROGRAMS = ("ssh-keygen",)

COMPARE = """\
Compare one with the host's own answer, from its console or its owner:
  for key in /etc/ssh/ssh_host_*.pub; do ssh-keygen -lf "$key"; done
"""


@verb(
    "client | compare its fingerprint, then say yes",
    "client --lab lab.toml --yes SHA256:... | for scripts that know the fingerprint",
    arg("host", "HOST", "a role of the lab, its address, or a jump host"),
    arg("--lab", "FILE", "the lab's file (lab.toml)", default="lab.toml", type=Path),
    arg("--yes", "FINGERPRINT", "accept this fingerprint (SHA256:...) without asking"), JSON,
)  # fmt: skip
def _trust(args: argparse.Namespace) -> None:
    """Check and keep the key of a host.

    Show the fingerprints of a host's keys, ask once, and keep the keys in the lab's own
    known_hosts. The machine's identity is kept too, so that a clone is recognized. A changed key
    is refused.
    """
    trust_host(args, args.host, args.yes)


def trust_host(args: argparse.Namespace, name: str, fingerprint: str) -> None:
    """Show the key of a host, and keep it if it has this fingerprint or the user says yes."""
    from labkit.lab import Lab
    from labkit.ssh import trust
    from labkit.ssh.address import resolved

    lab = Lab.read(args.lab)
    at = _address(lab, name)
    target, kept_in = resolved(at), Path(os.path.expanduser(at.known_hosts[0]))
    with busy(f"asking {target.address} for its keys"):
        try:
            keys = trust.shown(target)
        except HostError as silent:
            if at.name not in lab.hosts:
                raise _no_role(silent, lab) from None
            raise
    is_known = trust.is_known(target, keys)
    if fingerprint:
        choice = _choose(target, keys, fingerprint)
    else:
        command = ("labkit", "trust", name, "--lab", str(args.lab), "--yes", "FINGERPRINT")
        choice = () if is_known else _agree(target, keys, command, may_ask=not args.json)
    keys_to_keep = () if is_known else choice
    if keys_to_keep:
        trust.keep(kept_in, target, keys_to_keep)
    # The identity of the machine, or why that is not noted.
    machine = _machine(at, target) if at.name in lab.hosts else ""
    kept = [key.fingerprint for key in keys_to_keep]
    document = {
        "name": at.name, "address": target.address, "port": target.port,
        "keys": [{"kind": key.kind, "fingerprint": key.fingerprint} for key in keys],
        "known": is_known, "kept": kept, "known_hosts": str(kept_in), "machine": machine,
    }  # fmt: skip
    fate = "its key is known already" if is_known else f"kept {', '.join(kept)} in {kept_in}"
    lines = [f"{at.name}: {fate}", *([f"machine: {machine}"] if machine else [])]
    tell(args, document, lambda: "\n".join(lines))


# A role, or where a role's SSH goes, or a jump host: HOST is then as `ssh -J` takes it.
def _address(lab: Lab, name: str) -> Address:
    from labkit.ssh.address import JUMP

    for role, host in lab.hosts.items():
        at: Address | None = getattr(host.transport, "at", None)
        if at is None and name == role:
            problem = f"{role} is this machine, so there is no key to trust"
            raise BadInput(problem, hint="labkit doctor looks at it")
        if at is not None and name in (role, at.control):
            return at
    before, _, last = name.rpartition(",")
    match = JUMP.fullmatch(last)
    if match is None or name.startswith("-"):
        raise BadInput(f"{name!r} is not a host", hint=f"roles of this lab: {', '.join(lab.hosts)}")
    host_name, port = match["six"] or match["host"], int(match["port"] or 0)
    user = match["user"] or ""
    return replace(lab.defaults, name=name, control=host_name, port=port, user=user, jump=before)


# A name that means no address was meant as a role.
def _no_role(silent: HostError, lab: Lab) -> LabkitError:
    from labkit.ssh.way import UnknownName

    roles = f"roles of this lab: {', '.join(lab.hosts)}"
    if isinstance(silent, UnknownName):
        return BadInput(silent.what, said=silent.said, hint=roles)
    silent.hint = f"{silent.hint}\n{roles}"
    return silent


# A human compares, once; nobody else is asked (under papermill or cron there is nobody to ask).
def _agree(
    target: Target, keys: tuple[Shown, ...], command: Sequence[str], *, may_ask: bool
) -> tuple[Shown, ...]:
    if not (may_ask and sys.stdin.isatty() and sys.stderr.isatty()):
        raise HostKeyRefused(
            f"{target.name}: its key is not known, and there is no terminal to ask on",
            said="\n".join(f"it shows {key.kind} {key.fingerprint}" for key in keys),
            hint=f"compare a fingerprint, then: {shlex.join(command)}",
        )
    print(f"{target.name}: {target.address} port {target.port} shows\n", file=sys.stderr)
    for key in keys:
        print(f"  {key.kind:<20} {key.fingerprint}", file=sys.stderr)
    print(f"\n{COMPARE}\nIs this the host? (yes, no, or a fingerprint) ", end="", file=sys.stderr)
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    return keys if answer == "yes" else _choose(target, keys, answer)


# One fingerprint proves one key: the others might come from somebody in between.
def _choose(target: Target, keys: Sequence[Shown], answer: str) -> tuple[Shown, ...]:
    matches = tuple(key for key in keys if key.fingerprint == answer)
    if not matches:
        raise HostKeyRefused(
            f"{target.name}: {answer or 'no answer'} is none of its fingerprints; nothing was kept",
            said="\n".join(f"it shows {key.kind} {key.fingerprint}" for key in keys),
            hint="if the host reports another fingerprint, somebody intercepts the connection",
        )
    return matches


# The machine can be noted once we may log in; until then the key alone is known.
def _machine(at: Address, target: Target) -> str:
    from labkit.host import Host
    from labkit.ssh import trust
    from labkit.transports.ssh import Ssh

    name = target.known_as.first
    with closing(Ssh(at)) as transport:
        try:
            present = trust.identity(Host(at.name, target.address, transport), name)
        except HostError as error:
            return f"not noted: {error.what}"
    pins_of_host = trust.pins_of(at, name)
    for place, pin in pins_of_host[-1:]:
        trust.compare(at.name, pin, place, present)
    if not pins_of_host:
        trust.pin_down(at, present)
    return f"{present.machine}, host name {present.hostname}"
