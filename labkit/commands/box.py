"""`labkit box`: the lab in a box, up, looked at, and down."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.commands._verb import json_flag, print_json, verb
from labkit.errors import Unknown

if TYPE_CHECKING:
    from labkit.box import BoxStatus

PROGRAMS = ("ssh",)
ACCELERATOR = "kvm, uml, tcg or auto, for guests that leave a choice (default: auto)"

MADE_OF = "a topology file, or a name from `labkit box topologies` (default: pair)"

SHAPES = {
    "rate": "100 Mbit/s",
    "delay": "2 ms",
    "jitter": "100 us",
    "loss": "0.5 %",
}


def add(verbs: Any) -> None:
    """Add the verb."""
    text = "the lab in a box: real hosts on this machine"
    parser = verb(
        verbs, "box", _box_down, text,
        "up | two hosts and a guest",
        "up four-guests --name mine | another topology, next to the first",
        "status | is it up?", "ssh client uname -r | a command on one of its hosts",
        "down | remove it",
    )  # fmt: skip
    inner = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, call, text_of_verb, *examples in (
        ("up", _box_up, "start the box; does nothing if it is up",
         " | two hosts and a guest",
         "four-guests --name mine | another topology, next to the first"),
        ("status", _box_status, "list the hosts of the box and their states",
         " | exit code 0 only if it is up"),
        ("down", _box_down, "remove the box: processes, namespaces, links, files",
         " | the box named lab", "--name mine | the box of this name"),
    ):  # fmt: skip
        verb_parser = verb(inner, name, call, text_of_verb, *examples)
        if name == "up":
            verb_parser.add_argument(
                "topology", nargs="?", default="", metavar="TOPOLOGY", help=MADE_OF
            )
            verb_parser.add_argument("--accelerator", metavar="NAME", help=ACCELERATOR)
        _name_flag(verb_parser)
        json_flag(verb_parser)
    _add_shape(inner)
    _add_migrate(inner)
    _add_ssh(inner)
    json_flag(verb(inner, "topologies", _box_topologies, "list the built-in topologies", ""))


def _name_flag(parser: argparse.ArgumentParser) -> None:
    text = "name of the box (default: lab)"
    parser.add_argument("--name", default="lab", metavar="NAME", help=text)


def _add_shape(inner: Any) -> None:
    text = "change and measure a link of the box; without options, restore it"
    shape = verb(
        inner, "shape", _box_shape, text,
        'client --rate "100 Mbit/s" --delay "2 ms" | slow it down', "client | restore the link",
    )  # fmt: skip
    _name_flag(shape)
    shape.add_argument("host", metavar="HOST", help="role of the host with that link")
    for key, example in SHAPES.items():
        text = f'such as "{example}"'.replace("%", "%%")
        shape.add_argument(f"--{key}", default="", metavar="TEXT", help=text)
    json_flag(shape)


def _box_shape(args: argparse.Namespace) -> int:
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


def _add_migrate(inner: Any) -> None:
    text = "move a running QEMU guest to another host of the box; on failure it stays"
    move = verb(inner, "migrate", _box_migrate, text, "guest --to server2 --downtime 300ms")
    _name_flag(move)
    move.add_argument("guest", metavar="GUEST", help="role of the guest")
    move.add_argument("--to", required=True, metavar="HOST", help="the host to move it to")
    text = 'limit in bits per second, such as "100M"'
    move.add_argument("--bandwidth", default="", metavar="TEXT", help=text)
    text = 'longest pause at the end, such as "300ms"'
    move.add_argument("--downtime", default="", metavar="TEXT", help=text)
    json_flag(move)


def _box_migrate(args: argparse.Namespace) -> None:
    from labkit import box

    move = box.migrate(
        args.name, args.guest, to=args.to, bandwidth=args.bandwidth, downtime=args.downtime
    )
    if args.json:
        print_json(asdict(move))
        return
    print(f"{move.guest} went from {move.origin} to {move.to} in {move.total_ms} ms")
    print(f"  it stood still for {move.downtime_ms} ms (QEMU's figure)")
    if move.seen_by:
        print(f"  {move.seen_by} had no answer for {move.silence_ms:.1f} ms at the longest")
    print(f"  {move.bytes / 1e6:.1f} MB were sent, in {move.rounds} rounds")


def _add_ssh(inner: Any) -> None:
    ssh = verb(
        inner, "ssh", _box_ssh, "log in to a host of the box, or run a command there",
        "client | a shell", "client ip -br address | a command; ends with its code",
    )  # fmt: skip
    _name_flag(ssh)
    ssh.add_argument("host", metavar="HOST", help="a role, such as client or guest")
    ssh.add_argument(
        "words", metavar="COMMAND", nargs=argparse.REMAINDER, help="the command and its arguments"
    )


def _box_ssh(args: argparse.Namespace) -> None:
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


def _box_topologies(args: argparse.Namespace) -> None:
    from labkit.box import room, topology
    from labkit.box.machine import Machine
    from labkit.pages.terminal import table

    topologies = [topology.find(name) for name in topology.names()]
    if args.json:
        print_json([asdict(plan) for plan in topologies])
        return
    machine = Machine.read()
    rows = [(plan.name, room.planned(plan, machine)) for plan in topologies]
    print(table(rows, ["topology", "sizes on this machine"]))


def _box_up(args: argparse.Namespace) -> None:
    from labkit import box
    from labkit.box.guests.accelerator import VARIABLE
    from labkit.pages.terminal import progress_line

    if args.accelerator:
        os.environ[VARIABLE] = args.accelerator
    with progress_line() as line:
        path = box.up(args.name, line.say, made_of=args.topology)
    _show_box(args)
    if not args.json:
        text = f" --name {args.name}" if args.name != "lab" else ""
        print(f"\nits hosts are described in {path}; `labkit box down{text}` ends it")


def _box_status(args: argparse.Namespace) -> int:
    return _show_box(args)


def _box_down(args: argparse.Namespace) -> None:
    from labkit import box
    from labkit.pages.terminal import progress_line

    with progress_line() as line:
        box.down(args.name, line.say)
    if args.json:
        print_json(asdict(box.status(args.name)))
    else:
        print(f"box {args.name} is down; nothing of it is left")


def _show_box(args: argparse.Namespace) -> int:
    from labkit import box

    status = box.status(args.name)
    if args.json:
        print_json(asdict(status))
    else:
        _print_box(status)
    return 0 if status.state == "up" else 1


def _print_box(status: BoxStatus) -> None:
    tier = f": tier {status.tier}" if status.tier else ""
    guests = f", guests by {status.accelerator}" if status.accelerator else ""
    made_of = f", made of {status.topology}" if status.topology else ""
    print(f"box {status.name} is {status.state}{made_of}{tier}{guests}")
    _print_rows(
        [(h.role, h.control, h.address, h.interface, _cpus(h.cpus), h.memory or "-",
          "alive" if h.alive else "-") for h in status.hosts],
        "role", "control", "data", "interface", "cpus", "memory", "state",
    )  # fmt: skip
    _print_rows(_link_rows(status.links), "link", "by", "what", "asked", "measured")
    disks = [(g.name, *disk) for g in status.guests for disk in g.disks.items()]
    _print_rows(disks, "guest", "disk", "size and format")
    if status.state == "broken":
        print("\nremains: " + "; ".join(status.left))
        print(f"`labkit box up --name {status.name}` removes it and builds a new one")
    if dead := [link.role for link in status.links if not link.alive]:
        print(f"`labkit box shape {dead[0]} --name {status.name}` rebuilds only that link")


def _print_rows(rows: Sequence[tuple[str, ...]], *heads: str) -> None:
    from labkit.pages.terminal import table

    if rows:
        print(f"\n{table(rows, list(heads))}")


def _link_rows(links: Iterable[Any]) -> list[tuple[str, ...]]:
    return [
        (link.role, link.by or "-", key, text,
         link.measured.get(key, "not measured") if link.alive else "nothing passes: it has ended")
        for link in links
        for key, text in link.asked.items()
    ]  # fmt: skip


def _cpus(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus))
