"""`labkit box`: the lab in a box, up, looked at, and down."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.commands._verb import JSON, Verb, arg, tell
from labkit.errors import Unknown
from labkit.pages.terminal import ProgressLine, table

if TYPE_CHECKING:
    from labkit.box import BoxStatus

PROGRAMS = ("ssh",)
SHAPES = {"rate": "100 Mbit/s", "delay": "2 ms", "jitter": "100 us", "loss": "0.5 %"}
HOSTS = ("role", "control", "data", "interface", "cpus", "memory", "state")
LINKS, DISKS = ("link", "by", "what", "asked", "measured"), ("guest", "disk", "size and format")
NAME = arg("--name", "NAME", "name of the box (default: lab)", default="lab")
BOX = Verb(
    "box", "the lab in a box: real hosts on this machine",
    ("up | two hosts and a guest",
     "up four-guests --name mine | another topology, next to the first",
     "status | is it up?", "ssh client uname -r | a command on one of its hosts",
     "down | remove it"),
)  # fmt: skip


@BOX.verb(
    'client --rate "100 Mbit/s" --delay "2 ms" | slow it down', "client | restore the link",
    NAME, arg("host", "HOST", "role of the host with that link"),
    *(arg(f"--{key}", "TEXT", f'such as "{example}"'.replace("%", "%%"))
      for key, example in SHAPES.items()),
    JSON,
)  # fmt: skip
def _shape(args: argparse.Namespace) -> int:
    """Change and measure a link of the box; without options, restore it."""
    from labkit import box
    from labkit.box import needs
    from labkit.box.rootless import sudo, user_namespace

    words = {key: getattr(args, key) for key in SHAPES}
    options = [f"--{key}={text}" for key, text in words.items() if text]
    if not needs.is_root() and sudo.possible():
        sudo.box("shape", args.name, lambda _: None, args.host, *options)
    elif not needs.is_root() and user_namespace.Rootless(args.name).alive:
        user_namespace.Rootless(args.name).verb("shape", args.host, *options)
    else:
        box.reshape(args.name, box.asked_of(args.name, args.host, **words))
    return _show_box(args)


@BOX.verb(
    "guest --to server2 --downtime 300ms",
    NAME, arg("guest", "GUEST", "role of the guest"),
    arg("--to", "HOST", "the host to move it to", required=True),
    arg("--bandwidth", "TEXT", 'limit in bits per second, such as "100M"'),
    arg("--downtime", "TEXT", 'longest pause at the end, such as "300ms"'),
    JSON,
)  # fmt: skip
def _migrate(args: argparse.Namespace) -> None:
    """Move a running QEMU guest to another host of the box; on failure it stays."""
    from labkit import box

    move = box.migrate(
        args.name, args.guest, to=args.to, bandwidth=args.bandwidth, downtime=args.downtime
    )
    lines = [
        f"{move.guest} went from {move.origin} to {move.to} in {move.total_ms} ms",
        f"it stood still for {move.downtime_ms} ms (QEMU's figure)",
        f"{move.bytes / 1e6:.1f} MB were sent, in {move.rounds} rounds",
    ]
    tell(args, asdict(move), lambda: "\n  ".join(lines))


@BOX.verb(
    "client | a shell", "client ip -br address | a command; ends with its code",
    NAME, arg("host", "HOST", "a role, such as client or guest"),
    arg("words", "COMMAND", "the command and its arguments", nargs=argparse.REMAINDER),
)  # fmt: skip
def _ssh(args: argparse.Namespace) -> None:
    """Log in to a host of the box, or run a command there."""
    from labkit import box
    from labkit.box.folder import not_up

    status = box.status(args.name)
    hosts = {host.role: host for host in status.hosts}
    if not hosts:
        raise not_up(args.name)
    if args.host not in hosts:
        raise Unknown(f"host of box {args.name}", args.host, hosts)
    folder = Path(status.lab).parent
    options = [f"UserKnownHostsFile={folder / 'known_hosts'}", "StrictHostKeyChecking=yes",
               "IdentitiesOnly=yes", "LogLevel=ERROR"]  # fmt: skip
    path = folder / "ssh_config"
    words = ["ssh", "-F", str(path) if path.is_file() else "none", "-i", str(folder / "key")]
    words += [word for option in options for word in ("-o", option)]
    host = hosts[args.host]
    at = f"root@{host.control}"
    sys.stdout.flush()
    command = [shlex.join(args.words)] if args.words else []
    os.execvp("ssh", [*words, at, *command])


@BOX.verb("", JSON)
def _topologies(args: argparse.Namespace) -> None:
    """List the built-in topologies."""
    from labkit.box import room, topology
    from labkit.box.machine import Machine

    topologies = [topology.find(name) for name in topology.names()]
    machine = Machine.read()
    rows = [(plan.name, room.planned(plan, machine)) for plan in topologies]
    document = [asdict(plan) for plan in topologies]
    tell(args, document, lambda: table(rows, ["topology", "sizes on this machine"]))


@BOX.verb(
    " | two hosts and a guest", "four-guests --name mine | another topology, next to the first",
    arg("topology", "TOPOLOGY",
        "a topology file, or a name from `labkit box topologies` (default: pair)", nargs="?"),
    arg("--accelerator", "NAME",
        "kvm, uml, tcg or auto, for guests that leave a choice (default: auto)"),
    NAME, JSON,
)  # fmt: skip
def _up(args: argparse.Namespace) -> None:
    """Start the box; does nothing if it is up."""
    from labkit import box
    from labkit.box.guests.accelerator import VARIABLE

    if args.accelerator:
        os.environ[VARIABLE] = args.accelerator
    with ProgressLine() as line:
        path = box.up(args.name, line.say, made_of=args.topology)
    _show_box(args)
    if not args.json:
        text = f" --name {args.name}" if args.name != "lab" else ""
        print(f"\nits hosts are described in {path}; `labkit box down{text}` ends it")


@BOX.verb(" | the box named lab", "--name mine | the box of this name", NAME, JSON)
def _down(args: argparse.Namespace) -> None:
    """Remove the box: processes, namespaces, links, files."""
    from labkit import box

    with ProgressLine() as line:
        box.down(args.name, line.say)
    text = f"box {args.name} is down; nothing of it is left"
    tell(args, asdict(box.status(args.name)), lambda: text)


@BOX.verb(" | exit code 0 only if it is up", NAME, JSON)
def _status(args: argparse.Namespace) -> int:
    """List the hosts of the box and their states."""
    return _show_box(args)


def _show_box(args: argparse.Namespace) -> int:
    from labkit import box

    status = box.status(args.name)
    tell(args, asdict(status), lambda: _describe(status))
    return 0 if status.state == "up" else 1


def _describe(status: BoxStatus) -> str:
    tier = f": tier {status.tier}" if status.tier else ""
    guests = f", guests by {status.accelerator}" if status.accelerator else ""
    made_of = f", made of {status.topology}" if status.topology else ""
    hosts = [
        (h.role, h.control, h.address, h.interface, ",".join(map(str, h.cpus)), h.memory or "-",
         "alive" if h.alive else "-")
        for h in status.hosts
    ]  # fmt: skip
    links = [
        (link.role, link.by or "-", key, text,
         link.measured.get(key, "not measured") if link.alive else "nothing passes: it has ended")
        for link in status.links for key, text in link.asked.items()
    ]  # fmt: skip
    disks = [(guest.name, *disk) for guest in status.guests for disk in guest.disks.items()]
    tables: dict[tuple[str, ...], Sequence[Any]] = {HOSTS: hosts, LINKS: links, DISKS: disks}
    parts = [f"box {status.name} is {status.state}{made_of}{tier}{guests}",
             *(table(rows, head) for head, rows in tables.items() if rows)]  # fmt: skip
    if status.state == "broken":
        fix = f"`labkit box up --name {status.name}` removes it and builds a new one"
        parts.append(f"remains: {'; '.join(status.left)}\n{fix}")
    if dead := [link.role for link in status.links if not link.alive]:
        parts.append(f"`labkit box shape {dead[0]} --name {status.name}` rebuilds only that link")
    return "\n\n".join(parts)
