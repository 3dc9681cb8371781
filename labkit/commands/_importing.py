"""`labkit results import`: bundles, and what other tools wrote."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.commands._verb import busy, label_flag, now, print_json, verb
from labkit.errors import BadInput, readable

if TYPE_CHECKING:
    from labkit.results import Results

NAMED = re.compile(r"((?:\[[^]]*\]|[^=[])+)=(.*)", re.DOTALL)
"""A condition before its file; a point of it, such as `[load=read]`, may hold what parts them."""


def add_import(inner: Any) -> None:
    """Add the verb to those of `labkit results`."""
    one = verb(
        inner, "import", _import, "import a bundle, or another tool's output; nothing is run",
        "mine.labkit | a bundle", "--from fio slow=a.json fast=b.json | output of fio",
        "--from netperf --study docker_netperf --metric 'latency=latency p50' Native=a VM=b"
        " | judge the claims of this study",
    )  # fmt: skip
    one.add_argument(
        "files", nargs="+", metavar="[CONDITION=]FILE", help="bundles, or a tool's files"
    )
    one.add_argument(
        "--from", dest="format", default="labkit", metavar="TOOL",
        help="the tool that wrote the files, such as fio or iperf3 (default: labkit)",
    )  # fmt: skip
    one.add_argument(
        "--study", default="", metavar="STUDY",
        help="judge the claims of this study; use its names of conditions",
    )  # fmt: skip
    one.add_argument(
        "--metric", action="append", default=[], metavar="NAME=METRIC",
        help="the tool's metric for the claims' NAME (or NAME: CONDITION), or an expression: "
        "\"'read iops' + 'write iops'\"; if repeated, the first that the file has",
    )  # fmt: skip
    label_flag(one)


def _import(asked: argparse.Namespace) -> None:
    if asked.format != "labkit":
        said = [(_files(asked), "imported")]
    elif asked.study or asked.metric:
        raise BadInput(
            f"{'--study' if asked.study else '--metric'} is only for files that other tools wrote",
            hint="name the tool, such as --from fio; a bundle needs no tool",
        )
    else:
        said = _bundles(asked)
    told = [
        {"path": str(results.path), "state": state, "left_out": _left_out(results),
         **(_of_claims(results) if asked.study else {})}
        for results, state in said
    ]  # fmt: skip
    if asked.json:
        print_json(told)
        return
    for one in told:
        lines = [f"{one['path']}: {one['state']}", *one["left_out"]]
        print(readable("\n  left out of ".join(lines)))
        if asked.study:
            print(_judging(one))


def _bundles(asked: argparse.Namespace) -> list[tuple[Results, str]]:
    from labkit.runs import bundle

    with busy("checking and unpacking"):
        taken = [bundle.take_in(Path(file)) for file in asked.files]
    return [(each, "imported" if new else "was here already") for each, new in taken]


def _files(asked: argparse.Namespace) -> Results:
    from labkit import imports
    from labkit.claims.judged_as import Claimed
    from labkit.results import check_label

    if asked.metric and not asked.study:
        raise BadInput("--metric is for the claims of a study: which --study?")
    study = asked.study.replace("-", "_")
    claimed = Claimed.said(study, asked.metric) if study else None
    files: dict[str, list[Path]] = {}
    for word in asked.files:
        condition, path = _condition(word)
        files.setdefault(condition, []).append(path)
    label = check_label(asked.label or "-".join(filter(None, (study, now()))))
    return imports.take_in(asked.format, files, label, claimed)


# Runs of one condition are named a.1.json, a.2.json by many: what is before the first dot counts.
def _condition(word: str) -> tuple[str, Path]:
    named = NAMED.fullmatch(word)
    if word.endswith("=") and not Path(word).exists():
        raise BadInput(f"{word} names no file", hint="CONDITION=FILE")
    if named and not Path(word).exists():
        return named[1], Path(named[2])
    return Path(word).name.split(".")[0], Path(word)


# Of imported files that were cut off, or of which a test failed.
def _left_out(results: Results) -> list[str]:
    facts = [run.facts for run in results.readable()[0] if "left_out" in run.facts]
    return [f"{each['file']}: {each['left_out']}" for each in facts]


def _of_claims(results: Results) -> dict[str, Any]:
    from labkit.running import measured

    return {
        "study": results.judged_as,
        "found": [*measured.of_claims(results)],
        "lacking": measured.lacking(results),
    }


def _judging(told: dict[str, Any]) -> str:
    from labkit.pages import terminal

    found, lacking = told["found"], told["lacking"]
    of = f"{len(found)} of {len(found) + len(lacking)} figures that the claims are about"
    rest = f"; not: {'; '.join(lacking)}" if lacking else ""
    lines = [f"measured {of}{rest}", f"labkit scorecard --study {told['study']} judges them"]
    return "\n".join(terminal.paragraph(f"  {line}") for line in lines)
