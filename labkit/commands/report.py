"""`labkit report`: the report of results that exist, or what changed against older ones."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from labkit.commands._verb import JSON, arg, busy, flag, now, show_answer, tell, verb
from labkit.commands.compare import show
from labkit.errors import BadInput

if TYPE_CHECKING:
    from labkit.results import Results


@verb(
    "lat_ping | the newest results of this study",
    "out/results/lat_ping/monday-1a2b3c4d | of these",
    "lat_ping --artifact | each claim: how tested, tolerance, result, time",
    "lat_ping --against old.labkit | what changed; exit code 1 if anything did",
    "lat_ping --against old.labkit --html >changed.html | as a page",
    "lat_ping --against monday.labkit tuesday.labkit | beside each of these",
    arg("run", "RUN", "a folder of results, one of its runs, or a study (its newest)"),
    arg("--against", "OLD", nargs="+", default=[],
        text="compare with older results of the same study; exit code 1 if a figure has changed"),
    (flag("--markdown", "print the comparison as Markdown"),
     flag("--html", "print the comparison as an HTML page"), JSON),
    flag("--artifact", "write a page for the evaluation of an artifact"),
)  # fmt: skip
def _report(args: argparse.Namespace) -> int:
    """Write the report of existing results."""
    from labkit import imports, studies
    from labkit.pages.answer import given
    from labkit.running import comparing
    from labkit.running.open_lab import named_results

    results = named_results(args.run)
    if args.against:
        return _against(args, results, [named_results(name) for name in args.against])
    if args.markdown or args.html:
        hint = "give --against OLD; without it the report is a page already"
        raise BadInput("--markdown and --html are of a comparison", hint=hint)
    if args.artifact:
        return _artifact(args, results)
    if results.study == imports.STUDY:
        hint = f"as a page: labkit scorecard {results.path} --html"
        raise BadInput(f"{results.path} was imported, and has no notebook", hint=hint)
    if comparing.STUDY in results.asked:
        show(args, comparing.outcome(results))
        return 0
    study = studies.find(results.study)
    label = str(results.asked.get("label") or now())
    show_answer(study, given(study.name, str(results.path), results.asked, label), args)
    return 0


def _artifact(args: argparse.Namespace, results: Results) -> int:
    from labkit.claims import published
    from labkit.pages import artifact

    if results.judged_as not in published.names():
        raise BadInput(f"{results.path}: no claims of {results.judged_as} are known",
                       hint="labkit claims new FILE; results import --study NAME")  # fmt: skip
    with busy("judging"):
        file = artifact.write(results)
    tell(args, {"page": str(file), "claims": artifact.told(results)}, lambda: str(file))
    return 0


def _against(args: argparse.Namespace, new: Results, olds: Sequence[Results]) -> int:
    from labkit.pages.old_and_new import Several, old_and_new

    for old in olds:
        if new.study != old.study:
            problem = f"{new.path} is of {new.study}, {old.path} of {old.study}"
            raise BadInput(problem, hint="compare results of one study")
    with busy("comparing"):
        first, *others = (old_and_new(old, new) for old in olds)
    sides = Several((first, *others)) if others else first
    if args.html or args.markdown:
        print(sides.page() if args.html else sides.markdown())
    else:
        tell(args, sides.told(), sides.text)
    return int(bool(sides.changed))
