"""`labkit campaign`: many studies from one file, resumed after any death, reported, compared."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.commands._compare import add_compare
from labkit.commands._verb import busy, json_flag, print_json, verb

if TYPE_CHECKING:
    from labkit.campaign.folder import CampaignFolder

SOME_FAILED, LATE = 1, 3
"""Exit codes: a point failed for good; the deadline came before the last point."""


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "campaign", None, "run many studies from one file; go on after any death",
        "new nightly.toml | write a file to edit", "run nightly.toml | measure what it lacks",
    )  # fmt: skip
    inner = parser.add_subparsers(title="steps", metavar="STEP", required=True)
    _add_new(inner)
    _add_check(inner)
    _add_run(inner)
    _add_report(inner)
    add_compare(inner)


def _add_new(inner: Any) -> None:
    one = verb(
        inner, "new", _new, "write a commented campaign file to begin with",
        "nightly.toml | an example to edit; a file that exists stays as it is",
    )  # fmt: skip
    one.add_argument("file", type=Path, metavar="FILE", help="name of the new file: NAME.toml")


def _add_check(inner: Any) -> None:
    one = verb(
        inner, "check", _check, "explain every point, and how long all will take; run nothing",
        "nightly.toml | what would run where, or what is wrong in which line",
    )  # fmt: skip
    _file(one)
    json_flag(one)


def _add_run(inner: Any) -> None:
    one = verb(
        inner, "run", _run, "run what is not finished yet, then write the report",
        "nightly.toml | the same again after a stop or a crash: it goes on",
    )  # fmt: skip
    one.epilog = (
        f"{one.epilog}\n\n"
        "exit codes: 0: all points are finished; 1: a point failed for good; 2: the file is "
        "wrong; 3: the deadline came first; 130: you stopped it, and settings were put back."
    )
    _file(one)
    json_flag(one)


def _add_report(inner: Any) -> None:
    one = verb(
        inner, "report", _report, "write the report of a campaign, also of one that is half done",
        "nightly | one folder that opens anywhere, without a network",
    )  # fmt: skip
    one.add_argument(
        "campaign", metavar="CAMPAIGN", help="name of a campaign, its file, or its folder"
    )
    json_flag(one)


def _file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a campaign file")


def _new(asked: argparse.Namespace) -> None:
    from labkit.campaign.example import write_example

    write_example(asked.file)
    print(f"wrote {asked.file}; edit it, then: labkit campaign check {asked.file}")


def _check(asked: argparse.Namespace) -> None:
    from labkit.campaign import points, shown
    from labkit.campaign.asked import Campaign
    from labkit.campaign.folder import CampaignFolder, folder_of
    from labkit.campaign.foreseen import foreseen

    with busy(f"reading {asked.file}"):
        campaign = Campaign.read(asked.file)
        found = points.points(campaign)
        expected = foreseen(found)
        there = folder_of(campaign.name) / "campaign.json"
        folder = CampaignFolder.begin(campaign, found) if there.exists() else None
        finished = sum(1 for one in found if folder and folder.finished(one))
    if asked.json:
        print_json(
            {"name": campaign.name, "finished": finished,
             "seconds": round(shown.took(found, expected), 1),
             "points": [{**asdict(one), "name": one.name, **asdict(expected[one.name])}
                        for one in found]}
        )  # fmt: skip
    else:
        print(shown.explained(campaign, found, expected, finished))


def _run(asked: argparse.Namespace) -> int:
    from labkit.campaign import points
    from labkit.campaign.asked import Campaign
    from labkit.campaign.conductor import Conductor
    from labkit.campaign.folder import CampaignFolder
    from labkit.campaign.foreseen import foreseen
    from labkit.campaign.shown import standing
    from labkit.pages.terminal import progress_line

    campaign = Campaign.read(asked.file)
    folder = CampaignFolder.begin(campaign, points.points(campaign))
    with folder.held(), progress_line() as line:
        line.draw("getting ready")
        conductor = Conductor(
            folder, foreseen(folder.points), lambda now: line.draw(standing(now)), line.note,
            campaign.retries, campaign.deadline, campaign.limit,
        )  # fmt: skip
        try:
            conductor.conduct()
        finally:
            line.draw("writing the report")
            index = _written(folder)
    _show(asked, folder, index)
    if conductor.late:
        return LATE
    return SOME_FAILED if conductor.failed else 0


def _report(asked: argparse.Namespace) -> None:
    from labkit.campaign.folder import named_campaign

    folder = named_campaign(asked.campaign)
    with busy("writing the report"):
        index = _written(folder)
    _show(asked, folder, index)


def _written(folder: CampaignFolder) -> Path:
    from labkit.campaign.report import write

    return write(folder)


def _show(asked: argparse.Namespace, folder: CampaignFolder, index: Path) -> None:
    from labkit.campaign.folder import told
    from labkit.campaign.shown import ended
    from labkit.errors import readable

    whole = {**told(folder), "report": str(index)}
    if asked.json:
        print_json(whole)
    else:
        print(readable("\n".join([ended(whole), f"report    {index}", *_boxes(folder)])))


# As after `labkit run`.
def _boxes(folder: CampaignFolder) -> list[str]:
    from labkit import box, studies

    used = {studies.find(one.study).topology for one in folder.points if one.lab == "box"}
    up = {name for name in box.names() if box.status(name).state == "up"}
    return [
        f"box       stays up for the next run; `labkit box down{own}` ends it"
        for topology in sorted(used) if (topology or "lab") in up
        for own in [f" --name {topology}" if topology else ""]
    ]  # fmt: skip
