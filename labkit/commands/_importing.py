"""`labkit results import`: bundles, and what other tools wrote."""

from __future__ import annotations

import argparse
import glob
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.commands._verb import JSON, LABEL, arg, busy, flag, now, tell, verb
from labkit.errors import BadInput, readable
from labkit.machine.units import by_numbers
from labkit.pages.terminal import paragraph

if TYPE_CHECKING:
    from labkit.results import Results

CONDITION_AND_FILE = re.compile(r"((?:\[[^]]*\]|[^=[])+)=(.*)", re.DOTALL)
"""A condition before its file; a point of it, such as `[load=read]`, may hold what parts them."""


@verb(
    "mine.labkit | a bundle", "--from fio slow=a.json fast=b.json | output of fio",
    "--from netperf --study docker_netperf --metric 'latency=latency p50' Native=a VM=b"
    " | judge the claims of this study",
    "--from values figures.csv | condition, block, metric, value, unit",
    "--from fio 'VM=vm*.json' 'VM=netperf:vm*.txt' | several files, two tools",
    arg("files", "[CONDITION=][TOOL:]FILE", nargs="+",
        text="bundles, or a tool's files; * and ? in quotes are matched"),
    arg("--from", "TOOL", "the tool that wrote the files, such as fio or iperf3 (default: labkit)",
        dest="format", default="labkit"),
    arg("--study", "STUDY", "judge the claims of this study; use its names of conditions"),
    arg("--metric", "NAME=METRIC", action="append",
        text="the tool's metric for the claims' NAME (or NAME: CONDITION), or an expression: "
        "\"'read iops' + 'write iops'\"; if repeated, the first that the file has"),
    flag("--trials", "each value of a file is a block of its own"), LABEL, JSON,
)  # fmt: skip
def _import(args: argparse.Namespace) -> None:
    """Import a bundle, or another tool's output; nothing is run."""
    from labkit.running import measured
    from labkit.runs import bundle

    if args.format != "labkit":
        pairs = [(_files(args), "imported")]
    elif args.study or args.metric or args.trials:
        flag = "--study" if args.study else "--metric" if args.metric else "--trials"
        problem = f"{flag} is only for files that other tools wrote"
        raise BadInput(problem, hint="name the tool, such as --from fio; a bundle needs no tool")
    else:
        with busy("checking and unpacking"):
            bundles = [bundle.take_in(Path(file)) for file in args.files]
        pairs = [(results, "imported" if new else "was here already") for results, new in bundles]
    rows: list[dict[str, Any]] = []
    for results, state in pairs:
        # Of imported files that were cut off, or of which a test failed.
        facts = [run.facts for run in results.readable()[0] if "left_out" in run.facts]
        left_out = [f"{fact['file']}: {fact['left_out']}" for fact in facts]
        rows.append({"path": str(results.path), "state": state, "left_out": left_out})
        if args.study:
            rows[-1] |= {
                "study": results.judged_as, "found": [*measured.of_claims(results)],
                "lacking": measured.lacking(results),
            }  # fmt: skip
    tell(args, rows, lambda: "\n".join(map(_describe, rows)))


def _files(args: argparse.Namespace) -> Results:
    from labkit import imports
    from labkit.claims.judged_as import Claimed
    from labkit.results import check_label

    if args.metric and not args.study:
        raise BadInput("--metric is for the claims of a study: which --study?")
    study = args.study.replace("-", "_")
    claims = Claimed.said(study, args.metric) if study else None
    files: dict[str, list[Path | imports.Source]] = {}
    for word in args.files:
        match = CONDITION_AND_FILE.fullmatch(word)
        if word.endswith("=") and not Path(word).exists():
            raise BadInput(f"{word} names no file", hint="CONDITION=FILE")
        named = None if Path(word).exists() else match
        condition, name = (named[1], named[2]) if named else ("", word)
        tool, paths = _tool_and_paths(name, args.format)
        files.setdefault(condition, []).extend(imports.Source(tool, path) for path in paths)
    label = check_label(args.label or "-".join(filter(None, (study, now()))))
    with busy("reading the files"):
        return imports.take_in(args.format, files, label, claims, args.trials)


# The tool before a file, if it is no part of its name; run2 comes before run10.
def _tool_and_paths(word: str, usual: str) -> tuple[str, list[Path]]:
    from labkit import imports

    tool, colon, pattern = word.partition(":")
    if Path(word).exists() or not colon or tool.replace("-", "_") not in imports.names():
        tool, pattern = usual, word
    if Path(pattern).exists() or not {*"*?["} & {*pattern}:
        return tool, [Path(pattern)]
    paths = sorted(map(Path, glob.glob(os.path.expanduser(pattern))), key=by_numbers)
    if not paths:
        raise BadInput(f"no file matches {pattern}")
    return tool, paths


def _describe(row: dict[str, Any]) -> str:
    first = "\n  left out of ".join([f"{row['path']}: {row['state']}", *row["left_out"]])
    if "found" not in row:
        return readable(first)
    figures, lacking = row["found"], row["lacking"]
    of = f"{len(figures)} of {len(figures) + len(lacking)} figures that the claims are about"
    absence = f"; not: {'; '.join(lacking)}" if lacking else ""
    lines = [f"measured {of}{absence}", f"labkit scorecard --study {row['study']} judges them"]
    return "\n".join([readable(first), *(paragraph(f"  {line}") for line in lines)])
