"""`labkit new`: the skeleton of a study, or the file of a lab."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.commands._verb import Verb, arg
from labkit.errors import BadInput
from labkit.pages.terminal import paragraph

if TYPE_CHECKING:
    from labkit.lab import Lab
    from labkit.running.new_lab import NewHost

NEW = Verb(
    "new", "write the skeleton of a new study, or the file of a lab",
    ("study disk_cache | module, notebook, published files, rows in the tables",
     "lab lab.toml | asks for your hosts, finds their links and guests"),
    kind="kind",
)  # fmt: skip


@NEW.verb(
    "lab.toml | asks for the addresses of client and server",
    "lab.toml client=root@192.0.2.10 server=root@192.0.2.11 | asks about their keys only",
    arg("file", "FILE", "the file to write", type=Path),
    arg("hosts", "HOST", "ROLE=[USER@]ADDRESS[:PORT]", nargs="*"),
    arg("--key", "FILE", "a private key for all hosts"),
    arg("--yes", "FINGERPRINT", "accept this fingerprint without asking; once a host",
        action="append"),
)  # fmt: skip
def _lab(args: argparse.Namespace) -> int:
    """Write the file of a lab, and look over its hosts."""
    from labkit.commands.doctor import look_at
    from labkit.commands.trust import trust_host
    from labkit.lab import Lab
    from labkit.running import new_lab

    hosts = [new_lab.NewHost.of(word, args.key) for word in args.hosts or _ask_for_hosts()]
    new_lab.write(args.file, hosts)
    print(f"wrote {args.file}")
    fingerprints, there = chain(args.yes, repeat("")), argparse.Namespace(lab=args.file, json=False)
    for host in hosts:
        trust_host(there, host.role, next(fingerprints))
    lab = Lab.read(args.file)
    complete = new_lab.complete(lab, hosts)
    new_lab.write(args.file, complete, overwrite=True)
    _tell_links(lab, args.file, complete[: len(hosts)])
    for guest in complete[len(hosts) :]:
        trust_host(there, guest.role, next(fingerprints))
    return look_at(Lab.read(args.file), there)


# The way of SSH may be a network for management alone.
def _tell_links(lab: Lab, file: Path, hosts: Sequence[NewHost]) -> None:
    from labkit.running.new_lab import other_links

    for host in hosts:
        if others := other_links(lab.host(host.role), host.interface):
            text = f"{host.role}: test traffic goes by {host.interface}, as SSH does."
            print(paragraph(f"{text} To use {' or '.join(others)}, edit {file}."))


def _ask_for_hosts() -> list[str]:
    if not sys.stdin.isatty():
        hint = "labkit new lab lab.toml client=root@192.0.2.10 server=root@192.0.2.11"
        raise BadInput("no hosts are named, and there is no terminal to ask on", hint=hint)
    asks = {"client": "asks", "server": "answers"}
    answers = {
        role: input(f"{role}, the host that {does}: [user@]address ") for role, does in asks.items()
    }
    return [f"{role}={word.strip()}" for role, word in answers.items() if word.strip()]


@NEW.verb(
    "disk_cache | a study that runs, with a claim that can fail",
    "disk_cache --document 'Disk Caches' | a claim of this document",
    arg("name", "NAME", "name of the study, such as disk_cache"),
    arg("--title", "TEXT", "title of the notebook"),
    arg("--question", "TEXT", "question that it answers"),
    arg("--document", "TEXT", "title of its document"),
    arg("--in", "DIR", dest="folder", type=Path,
        text="a folder of your own for it (default: the workspace here, else this checkout)"),
)  # fmt: skip
def _study(args: argparse.Namespace) -> None:
    """Write the skeleton of a new study into this checkout."""
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
