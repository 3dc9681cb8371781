"""`labkit new`: the skeleton of a study, or the file of a lab."""

import argparse
import os
import shlex
import sys
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from labkit.commands._verb import verb
from labkit.errors import BadInput


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "new", None, "write the skeleton of a new study, or the file of a lab",
        "study disk_cache | module, notebook, published files, rows in the tables",
        "lab lab.toml | asks for your hosts, finds their links and guests",
    )  # fmt: skip
    inner = parser.add_subparsers(title="kinds", metavar="KIND", required=True)
    command = verb(
        inner, "study", _new_study, "write the skeleton of a new study into this checkout",
        "disk_cache | a study that runs, with a claim that can fail",
        "disk_cache --document 'Disk Caches' | a claim of this document",
    )  # fmt: skip
    command.add_argument("name", metavar="NAME", help="name of the study, such as disk_cache")
    command.add_argument("--title", default="", metavar="TEXT", help="title of the notebook")
    command.add_argument("--question", default="", metavar="TEXT", help="question that it answers")
    command.add_argument("--document", default="", metavar="TEXT", help="title of its document")
    command.add_argument(
        "--in", dest="folder", type=Path, metavar="DIR",
        help="a folder of your own for it (default: the workspace here, else this checkout)",
    )  # fmt: skip

    _add_lab(inner)


def _add_lab(inner: Any) -> None:
    parser = verb(
        inner, "lab", _new_lab, "write the file of a lab, and look over its hosts",
        "lab.toml | asks for the addresses of client and server",
        "lab.toml client=root@192.0.2.10 server=root@192.0.2.11 | asks about their keys only",
    )  # fmt: skip
    parser.add_argument("file", type=Path, metavar="FILE", help="the file to write")
    parser.add_argument("hosts", nargs="*", metavar="HOST", help="ROLE=[USER@]ADDRESS[:PORT]")
    parser.add_argument("--key", default="", metavar="FILE", help="a private key for all hosts")
    parser.add_argument(
        "--yes", action="append", default=[], metavar="FINGERPRINT",
        help="accept this fingerprint without asking; once a host",
    )  # fmt: skip


def _new_lab(args: argparse.Namespace) -> int:
    from labkit.commands.doctor import look_at
    from labkit.commands.trust import trust_host
    from labkit.lab import Lab
    from labkit.running import new_lab

    hosts = [new_lab.NewHost.of(word, args.key) for word in args.hosts or _ask_for_hosts()]
    new_lab.write(args.file, hosts)
    print(f"wrote {args.file}")
    fingerprints = chain(args.yes, repeat(""))
    for host in hosts:
        trust_host(args.file, host.role, next(fingerprints))
    complete = new_lab.complete(Lab.read(args.file), hosts)
    new_lab.write(args.file, complete, overwrite=True)
    for guest in complete[len(hosts) :]:
        trust_host(args.file, guest.role, next(fingerprints))
    return look_at(Lab.read(args.file), str(args.file))


def _ask_for_hosts() -> list[str]:
    if not sys.stdin.isatty():
        hint = "labkit new lab lab.toml client=root@192.0.2.10 server=root@192.0.2.11"
        raise BadInput("no hosts are named, and there is no terminal to ask on", hint=hint)
    asks = {"client": "asks", "server": "answers"}
    answers = {
        role: input(f"{role}, the host that {does}: [user@]address ") for role, does in asks.items()
    }
    return [f"{role}={word.strip()}" for role, word in answers.items() if word.strip()]


def _new_study(args: argparse.Namespace) -> None:
    from labkit.machine import workspace
    from labkit.machine.places import HOME

    folder = args.folder.expanduser().resolve() if args.folder else workspace.nearest()
    if folder is not None and folder != workspace.nearest():
        workspace.use(folder)
    from labkit.running import new_study  # its registries are read once, now with the folder

    name = args.name.replace("-", "_")
    study = new_study.NewStudy(name, args.title, args.question, args.document, folder)
    flag = " --where local" if study.claimed else ""  # lines of shell need no second host
    for path in new_study.write(study):
        print(f"wrote {os.path.relpath(path)}")
    inside = folder is None or Path.cwd().resolve().is_relative_to(folder)
    move = "" if inside else f"cd {shlex.quote(str(args.folder))} && "
    print(f"\nThe study runs as it is: {move}labkit run {name}{flag} --quick")
    page = HOME / "notebooks/docs/own-study.md"
    print(f"Now make it yours: {page if folder else os.path.relpath(page)} says what goes where.")
