"""`labkit prepare`: the programs that studies call, brought to the hosts of a lab."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from labkit.commands._lab import lab, open_lab
from labkit.commands._verb import JSON, arg, busy, flag, tell, verb
from labkit.errors import BadInput

if TYPE_CHECKING:
    from labkit.host import Host
    from labkit.running.preparing import Lack
    from labkit.workload import Workload


@verb(
    "lat_netperf | say what this machine lacks for the lab in a box, and offer to install it",
    "--all --lab lab.toml --yes | install all that the studies call on hosts of your own",
    arg("study", "STUDY", "names of `labkit studies`", nargs="*"),
    flag("--all", "for all studies"), flag("--yes", "install without asking"),
    flag("--non-free", "also packages that are not free, such as netperf"),
    lab(), JSON,
)  # fmt: skip
def _prepare(args: argparse.Namespace) -> int:
    """Install the programs that studies call.

    Say for each host which programs of the studies it lacks, and which command brings them. On a
    terminal you are asked whether to install them; --yes installs them at once, over SSH, as root
    or by sudo. No service is started. What labkit builds itself stays in its own cache on this
    machine. Ends with 1 if something that a package or labkit brings is still missing.
    """
    from labkit import studies as all_studies
    from labkit.running.preparing import bring, lacking, unpackaged_of

    if bool(args.study) == args.all:
        raise BadInput("name studies, or say --all", hint="`labkit studies` lists them")
    studies = [all_studies.find(name) for name in args.study] or all_studies.readable()[0]
    lab = None if args.lab == "box" else open_lab(args)
    with busy("looking at the hosts"):
        lacks = lacking(studies, lab, args.non_free)
    if not args.json:
        print(rendered(lacks))
    if any(lack.packages or lack.built for lack in lacks) and (args.yes or _agree(args)):
        for lack in lacks:
            if lack.packages or lack.built:
                bring(lab, lack, lambda line: print(line, file=sys.stderr), args.non_free)
        lacks = lacking(studies, lab, args.non_free)
        if not args.json:
            print(rendered(lacks))
    ready = not any(lack.packages or lack.built or lack.trouble for lack in lacks)
    silent = {lack.host for lack in lacks if lack.trouble}
    answers = [_bring(load, host, args, ready) for load, host in unpackaged_of(studies, lab)
               if host.name not in silent]  # fmt: skip
    ready = ready and all(answers)
    if args.json:
        tell(args, {"ready": ready, "hosts": [asdict(lack) for lack in lacks]}, str)
    if lab:
        lab.close()
    return 0 if ready else 1


def _agree(args: argparse.Namespace) -> bool:
    if args.json or not (sys.stdin and sys.stdin.isatty()):
        return False
    return input("Install them now? [y/N] ").strip().lower() in ("y", "yes")


# Where packages are missing, it could not be installed.
def _bring(load: Workload, host: Host, args: argparse.Namespace, able: bool) -> bool:
    if load.there(host):
        return True
    print(f"{host.name}: {load.brings} is missing (for {load.name})", file=sys.stderr)
    if not able or not (args.yes or _agree(args)):
        return False
    load.install(host)
    print(f"{host.name}: {load.brings} is there", file=sys.stderr)
    return True


def rendered(lacks: Sequence[Lack]) -> str:
    """Describe what each host lacks, who calls it, and what brings it."""
    return "\n".join(line for lack in lacks for line in _lines(lack))


def _lines(lack: Lack) -> list[str]:
    if lack.trouble:
        return [f"{lack.host}: cannot be asked: {lack.trouble}"]
    if not lack.programs:
        return [f"{lack.host}: nothing is missing"]
    lines = [
        f"{lack.host}: {name} is missing (for {caller})" for name, caller in lack.programs.items()
    ]
    if lack.packages:
        names = " ".join(lack.packages)
        fix = lack.command or f"install Debian's {names}, as your system calls them"
        lines.append(f"  as root: {fix}")
    for name, instead in lack.not_free.items():
        without = f"; without it, {instead} do its tests" if instead else ""
        lines.append(f"  {name} is not free: --non-free installs it{without}")
    if lack.built:
        lines.append(f"  labkit itself {lack.built}")
    return [*lines, *(f"  {name} comes with {caller}" for name, caller in lack.elsewhere.items())]
