"""`labkit campaign`: many studies from one file, resumed after any death, reported, compared."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.commands._compare import add_compare
from labkit.commands._verb import at_least_one, busy, json_flag, print_json, verb

if TYPE_CHECKING:
    from labkit.campaign.conductor import Workplace
    from labkit.campaign.folder import CampaignFolder

SOME_FAILED, LATE = 1, 3
"""Exit codes: a point failed for good; the deadline came before the last point."""
EXIT_CODES = (
    "exit codes: 0: all points are finished; 1: a point failed for good; 2: the file is "
    "wrong; 3: the deadline came first; 130: you stopped it, and settings were put back."
)
NEW_FILE = ("FILE", Path, "name of the new file: NAME.toml")
FILE = ("FILE", Path, "a campaign file")
CAMPAIGN = ("CAMPAIGN", str, "name of a campaign, its file, or its folder")


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "campaign", None, "run many studies from one file; go on after any death",
        "new nightly.toml | write a file to edit", "run nightly.toml | measure what it lacks",
    )  # fmt: skip
    inner = parser.add_subparsers(title="steps", metavar="STEP", required=True)
    for name, call, argument, text, *examples in (
        ("new", _new, NEW_FILE, "write a commented campaign file to begin with",
         "nightly.toml | an example to edit; a file that exists stays as it is"),
        ("check", _check, FILE, "explain every point, and estimate the time for all; run nothing",
         "nightly.toml | what would run where, or what is wrong in which line"),
        ("run", _run, FILE, "run what is not finished yet, then write the report",
         "nightly.toml | the same again after a stop or a crash: it goes on",
         "nightly.toml --scheduler tcp://10.0.0.1:8786 | on a Dask cluster"),
        ("report", _report, CAMPAIGN, "write the report of a campaign, even an unfinished one",
         "nightly | one folder that opens anywhere, without a network"),
    ):  # fmt: skip
        command = verb(inner, name, call, text, *examples)
        metavar, kind, about = argument
        command.add_argument(metavar.lower(), type=kind, metavar=metavar, help=about)
        if name == "run":
            _add_cluster(command)
        if name != "new":
            json_flag(command)
    add_compare(inner)


def _add_cluster(run: argparse.ArgumentParser) -> None:
    run.epilog = f"{run.epilog}\n\n{EXIT_CODES}"
    place = run.add_mutually_exclusive_group()
    place.add_argument(
        "--scheduler", default="", metavar="ADDRESS",
        help="run on the Dask cluster of this scheduler; each worker offers its labs",
    )  # fmt: skip
    place.add_argument(
        "--local", type=at_least_one, default=0, metavar="N",
        help="run on a Dask cluster of N workers that is made on this machine",
    )  # fmt: skip
    run.add_argument(
        "--store", default="", metavar="URL",
        help="where workers keep results: a shared folder, or s3://BUCKET/FOLDER"
        " (default: out/stores)",
    )  # fmt: skip


def _new(args: argparse.Namespace) -> None:
    from labkit.campaign.example import write_example

    write_example(args.file)
    print(f"wrote {args.file}; edit it, then: labkit campaign check {args.file}")


def _check(args: argparse.Namespace) -> None:
    from labkit.campaign import points, shown
    from labkit.campaign.asked import Campaign
    from labkit.campaign.folder import CampaignFolder, folder_of
    from labkit.campaign.foreseen import foreseen

    with busy(f"reading {args.file}"):
        campaign = Campaign.read(args.file)
        campaign_points = points.points(campaign)
        forecast = foreseen(campaign_points)
        path = folder_of(campaign.name) / "campaign.json"
        folder = CampaignFolder.begin(campaign, campaign_points) if path.exists() else None
        finished = sum(1 for point in campaign_points if folder and folder.finished(point))
    if args.json:
        print_json(
            {"name": campaign.name, "finished": finished,
             "seconds": round(shown.took(campaign_points, forecast), 1),
             "points": [{**asdict(point), "name": point.name, **asdict(forecast[point.name])}
                        for point in campaign_points]}
        )  # fmt: skip
    else:
        print(shown.explained(campaign, campaign_points, forecast, finished))


def _run(args: argparse.Namespace) -> int:
    from labkit.campaign import points
    from labkit.campaign.asked import Campaign
    from labkit.campaign.conductor import Conductor
    from labkit.campaign.folder import CampaignFolder
    from labkit.campaign.foreseen import foreseen
    from labkit.campaign.shown import standing
    from labkit.pages.terminal import progress_line

    campaign = Campaign.read(args.file)
    cluster = _cluster(args)
    folder = CampaignFolder.begin(campaign, points.points(campaign))
    far = bool(args.scheduler or args.local)  # there each worker tries again, and has the limit
    with (
        folder.held(), progress_line() as line,
        cluster(folder, campaign.retries, campaign.limit, line.note) as at,
    ):  # fmt: skip
        line.draw("getting ready")
        conductor = Conductor(
            folder, foreseen(folder.points), lambda state: line.draw(standing(state)), line.note,
            0 if far else campaign.retries, campaign.deadline, None if far else campaign.limit, at,
        )  # fmt: skip
        try:
            conductor.conduct()
        finally:
            line.draw("writing the report")
            index = _write(folder)
    _show(args, folder, index)
    if conductor.late:
        return LATE
    return SOME_FAILED if conductor.failed else 0


def _cluster(args: argparse.Namespace) -> Callable[..., AbstractContextManager[Workplace]]:
    from labkit.campaign.conductor import ThisMachine
    from labkit.errors import BadInput

    if args.scheduler or args.local:
        from labkit.campaign.cluster.on_cluster import Cluster

        return Cluster(args.scheduler, args.local, args.store).joined
    if args.store:
        problem = "--store is for a campaign on a cluster"
        raise BadInput(problem, hint="add --scheduler ADDRESS, or --local N")
    return lambda *_: nullcontext(ThisMachine())


def _report(args: argparse.Namespace) -> None:
    from labkit.campaign.folder import named_campaign

    folder = named_campaign(args.campaign)
    with busy("writing the report"):
        index = _write(folder)
    _show(args, folder, index)


def _write(folder: CampaignFolder) -> Path:
    from labkit.campaign.report import write

    return write(folder)


def _show(args: argparse.Namespace, folder: CampaignFolder, index: Path) -> None:
    from labkit.campaign.folder import told
    from labkit.campaign.shown import ended
    from labkit.errors import readable

    content = {**told(folder), "report": str(index)}
    if args.json:
        print_json(content)
    else:
        print(readable("\n".join([ended(content), f"report    {index}", *_boxes(folder)])))


# As after `labkit run`.
def _boxes(folder: CampaignFolder) -> list[str]:
    from labkit import box, studies

    used = {studies.find(point.study).topology for point in folder.points if point.lab == "box"}
    return [
        f"box       stays up for the next run; `labkit box down{flags}` ends it"
        for topology in sorted(used) if box.status(topology or "lab").state == "up"
        for flags in [f" --name {topology}" if topology else ""]
    ]  # fmt: skip
