"""`labkit campaign`: many studies from one file, resumed after any death, reported, compared."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.commands._verb import JSON, Verb, arg, at_least_one, busy, flag, tell
from labkit.errors import BadInput, readable
from labkit.machine.places import PACKAGE
from labkit.pages.terminal import ProgressLine

if TYPE_CHECKING:
    from labkit.campaign.conductor import Workplace
    from labkit.campaign.folder import CampaignFolder

SOME_FAILED, LATE = 1, 3
"""Exit codes: a point failed for good; the deadline came before the last point."""


FILE = arg("file", "FILE", "a campaign file", type=Path)
CAMPAIGN = Verb(
    "campaign", "run many studies from one file; go on after any death",
    ("new nightly.toml | write a file to edit", "run nightly.toml | measure what it lacks"),
    kind="step",
)  # fmt: skip


@CAMPAIGN.verb(
    "nightly.toml | an example to edit; a file that exists stays as it is",
    arg("file", "FILE", "name of the new file: NAME.toml", type=Path),
)
def _new(args: argparse.Namespace) -> None:
    """Write a commented campaign file to begin with."""
    from string import Template

    file, example = args.file, PACKAGE / "campaign/example.toml"
    if file.suffix != ".toml":
        raise BadInput(f"{file}: a campaign file ends with .toml", hint=f"{file}.toml")
    try:
        with file.open("x", encoding="utf-8") as new_file:
            new_file.write(Template(example.read_text("utf-8")).substitute(name=file.stem))
    except FileExistsError:
        raise BadInput(f"{file} is there already", hint="choose another name") from None
    print(f"wrote {file}; edit it, then: labkit campaign check {file}")


@CAMPAIGN.verb("nightly.toml | what would run where, or what is wrong in which line", FILE, JSON)
def _check(args: argparse.Namespace) -> None:
    """Explain every point, and estimate the time for all; run nothing."""
    from labkit.campaign.asked import Campaign, points
    from labkit.campaign.folder import CampaignFolder, folder_of
    from labkit.campaign.foreseen import explained, foreseen, took

    with busy(f"reading {args.file}"):
        campaign = Campaign.read(args.file)
        campaign_points = points(campaign)
        forecast = foreseen(campaign_points)
        path = folder_of(campaign.name) / "campaign.json"
        folder = CampaignFolder.begin(campaign, campaign_points) if path.exists() else None
        finished = sum(1 for point in campaign_points if folder and folder.finished(point))
    document = {
        "name": campaign.name, "finished": finished,
        "seconds": round(took(campaign_points, forecast), 1),
        "points": [{**asdict(point), "name": point.name, **asdict(forecast[point.name])}
                   for point in campaign_points],
    }  # fmt: skip
    tell(args, document, lambda: explained(campaign, campaign_points, forecast, finished))


@CAMPAIGN.verb(
    "nightly.toml | the same again after a stop or a crash: it goes on",
    "nightly.toml --scheduler tcp://10.0.0.1:8786 | on a Dask cluster",
    FILE,
    (arg("--scheduler", "ADDRESS",
         "run on the Dask cluster of this scheduler; each worker offers its labs"),
     arg("--local", "N", "run on a Dask cluster of N workers that is made on this machine",
         type=at_least_one, default=0)),
    JSON,
)  # fmt: skip
def _run(args: argparse.Namespace) -> int:
    """Run what is not finished yet, then write the report.

    Exit codes: 0: all points are finished; 1: a point failed for good; 2: the file is wrong;
    3: the deadline came first; 130: you stopped it, and settings were put back.
    """
    from labkit.campaign.asked import Campaign, points
    from labkit.campaign.conductor import Conductor
    from labkit.campaign.folder import CampaignFolder
    from labkit.campaign.foreseen import foreseen
    from labkit.campaign.report import write

    campaign = Campaign.read(args.file)
    folder = CampaignFolder.begin(campaign, points(campaign))
    with folder.held(), ProgressLine() as line, _workplace(args, folder, line) as at:
        line.draw("getting ready")
        conductor = Conductor(
            folder, foreseen(folder.points), lambda state: line.draw(str(state)), line.note,
            campaign.retries, campaign.deadline, campaign.limit, at,
        )  # fmt: skip
        try:
            conductor.conduct()
        finally:
            line.draw("writing the report")
            index = write(folder)
    _show(args, folder, index, _boxes(folder))
    if conductor.late:
        return LATE
    return SOME_FAILED if conductor.failed else 0


def _workplace(
    args: argparse.Namespace, folder: CampaignFolder, line: ProgressLine
) -> AbstractContextManager[Workplace]:
    from labkit.campaign.conductor import Workplace

    if not (args.scheduler or args.local):
        return nullcontext(Workplace())
    from labkit.campaign.cluster import joined

    return joined(folder, line.note, args.scheduler, args.local)


@CAMPAIGN.verb(
    "nightly | one folder that opens anywhere, without a network",
    arg("campaign", "CAMPAIGN", "name of a campaign, its file, or its folder"), JSON,
)  # fmt: skip
def _report(args: argparse.Namespace) -> None:
    """Write the report of a campaign, even an unfinished one."""
    from labkit.campaign.folder import named_campaign
    from labkit.campaign.report import write

    folder = named_campaign(args.campaign)
    with busy("writing the report"):
        index = write(folder)
    _show(args, folder, index)


def _show(
    args: argparse.Namespace, folder: CampaignFolder, index: Path, more: Sequence[str] = ()
) -> None:  # fmt: skip
    from labkit.campaign.folder import ended, told

    content = {**told(folder), "report": str(index)}
    lines = [ended(content), f"report    {index}", *more]
    tell(args, content, lambda: readable("\n".join(lines)))


# As after `labkit run`.
def _boxes(folder: CampaignFolder) -> list[str]:
    from labkit import box, studies

    used = {studies.find(point.study).topology for point in folder.points if point.lab == "box"}
    return [
        f"box       stays up for the next run; `labkit box down{flags}` ends it"
        for topology in sorted(used) if box.status(topology or "lab").state == "up"
        for flags in [f" --name {topology}" if topology else ""]
    ]  # fmt: skip


def _share(word: str) -> float:
    try:
        share = float(word)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"must be a share from 0 to 1, not {word!r}")
    return share


@CAMPAIGN.verb(
    "monday tuesday | exit code 1 if a figure is clearly worse, or a point is missing",
    "monday tuesday --markdown >>$GITHUB_STEP_SUMMARY | for a page of continuous integration",
    "monday tuesday --junit >changes.xml | as test reports of continuous integration",
    arg("a", "A", "the old campaign: its name, file or folder"),
    arg("b", "B", "the new campaign, given like A"),
    arg("--least", "SHARE",
        "smallest change that matters (default 0.05: 5 %% of the old figure)", type=_share),
    (flag("--markdown", "print Markdown, for a comment"), flag("--junit", "print JUnit XML"), JSON),
)  # fmt: skip
def _compare(args: argparse.Namespace) -> int:
    """Find regressions and improvements from A to B."""
    from labkit.campaign.compare import compare
    from labkit.campaign.folder import named_campaign
    from labkit.verdict import MARGIN

    with busy("comparing all points"):
        margin = MARGIN if args.least is None else args.least
        result = compare(named_campaign(args.a), named_campaign(args.b), margin)
    form = result.markdown if args.markdown else result.junit if args.junit else result.text
    tell(args, result.told(), form)
    return 0 if result.passed else 1
