"""The folder of a campaign: what was asked, what became of each point, and the report.

out/campaigns/<name>/
    campaign.json                        the points in their order, and the file's text
    points/0007-lat_ping-<key>/          one folder per point:
        attempt-1.json                   each try: state, times, error, verdicts
        notebook.ipynb notebook.html     what the last try came to
    report/index.html                    the report of all, to open anywhere
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labkit import __version__
from labkit.campaign.asked import Campaign
from labkit.campaign.attempts import FINISHED, Attempt, attempts
from labkit.campaign.points import CampaignPoint
from labkit.errors import BadInput, Busy, ResultsError
from labkit.machine import records
from labkit.machine.places import out

FORMAT = 1
LARGE = 8
"""A campaign of very many points is written in a file that is larger than others."""


@dataclass(frozen=True)
class CampaignFolder:
    """A campaign that was begun, as its folder keeps it."""

    path: Path
    name: str
    points: tuple[CampaignPoint, ...]
    text: str
    file: str

    @classmethod
    def open(cls, path: Path) -> CampaignFolder:
        """A campaign that exists."""
        if not (path / "campaign.json").is_file():
            hint = "labkit campaign run FILE"
            raise ResultsError(f"no campaign at {path}", hint=hint)
        record = records.read_json(path / "campaign.json", large=LARGE)
        if record.get("format") != FORMAT:
            raise ResultsError(f"{path}: has format {record.get('format')!r}, not {FORMAT}")
        try:
            points = tuple(CampaignPoint(**fields) for fields in record["points"])
            return cls(path, record["name"], points, record["text"], record["file"])
        except (TypeError, LookupError) as error:
            problem = f"{path / 'campaign.json'}: is not a campaign of this labkit"
            raise ResultsError(problem, said=str(error)) from None

    @classmethod
    def begin(cls, campaign: Campaign, points: Sequence[CampaignPoint]) -> CampaignFolder:
        """A new one, or the one of this name to go on with; other points are refused."""
        path = folder_of(campaign.name)
        if (path / "campaign.json").exists():
            existing = cls.open(path)
            if existing.points != tuple(points):
                raise BadInput(
                    f"{path} holds a campaign of other points: {_unlike(existing.points, points)}",
                    hint=f'give this one another name: name = "{campaign.name}-2"',
                )
            return existing
        campaign_folder = cls(path, campaign.name, tuple(points), campaign.text, str(campaign.path))
        return campaign_folder._keep()

    @classmethod
    def alone(cls, at: Path, name: str, point: CampaignPoint) -> CampaignFolder:
        """The folder of a single point of a campaign, below another folder of measurements."""
        return cls(at / "campaigns" / name, name, (point,), "", "")._keep()

    def _keep(self) -> CampaignFolder:
        with records.keeping(f"the campaign {self.name}"):
            self.path.mkdir(parents=True, exist_ok=True)
            records.write(self.path / "campaign.json", self.record)
        return self

    @property
    def record(self) -> bytes:
        """The content of its campaign.json."""
        content = {
            "format": FORMAT, "name": self.name, "file": self.file, "labkit": __version__,
            "text": self.text, "points": [asdict(point) for point in self.points],
        }  # fmt: skip
        return records.pretty(content)

    def numbered(self, number: int) -> CampaignPoint:
        """The point of this number."""
        return next(point for point in self.points if point.number == number)

    def of(self, point: CampaignPoint) -> Path:
        """The folder of a point."""
        return self.path / "points" / point.name

    def attempts(self, point: CampaignPoint) -> list[Attempt]:
        """All attempts at a point, the first one first."""
        return attempts(self.of(point))

    def finished(self, point: CampaignPoint) -> Attempt | None:
        """The attempt that came to its end; None if none did yet."""
        return next(
            (attempt for attempt in self.attempts(point) if attempt.state == FINISHED), None
        )

    def results(self, attempt: Attempt) -> Path:
        """The folder of a finished attempt's runs; they may have moved together with this."""
        return self.path.parents[1] / attempt.results

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the campaign, so that no other process runs it too."""
        with holding(self.path / ".held", f"the campaign {self.name}"):
            yield


def _unlike(campaign_points: Sequence[CampaignPoint], points: Sequence[CampaignPoint]) -> str:
    keys = (
        {campaign_point.key for campaign_point in campaign_points},
        {point.key for point in points},
    )
    absent, new = len(keys[0] - keys[1]), len(keys[1] - keys[0])
    return (
        f"{absent} are not in the file, {new} are new" if absent or new else "their order differs"
    )


@contextmanager
def holding(file: Path, title: str) -> Iterator[None]:
    """Hold a lock that the kernel takes from a process which ends, however it ends."""
    file.parent.mkdir(parents=True, exist_ok=True)
    number = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            by = os.pread(number, 20, 0).decode("ascii", "replace").strip() or "another process"
            raise Busy(f"{title} is at work already, in process {by}", hint="wait") from None
        os.ftruncate(number, 0)
        os.pwrite(number, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(number)


def folder_of(name: str) -> Path:
    """The folder of the campaign of that name."""
    return out() / "campaigns" / name


def named_campaign(name: str) -> CampaignFolder:
    """The campaign that somebody names: its folder, its file, or its name."""
    path = Path(os.path.expanduser(name))
    if path.suffix == ".toml":
        return CampaignFolder.open(folder_of(Campaign.read(path).name))
    if path.is_dir() and (path / "campaign.json").is_file():
        return CampaignFolder.open(path.resolve())
    if (folder_of(name) / "campaign.json").is_file():
        return CampaignFolder.open(folder_of(name))
    names = sorted(file.parent.name for file in out().glob("campaigns/*/campaign.json"))
    hint = f"known: {', '.join(names)}" if names else "labkit campaign run FILE"
    raise ResultsError(f"no campaign {name}", hint=hint)


def told(folder: CampaignFolder) -> dict[str, Any]:
    """The whole campaign for a machine to read."""
    rows = []
    for point in folder.points:
        tries = folder.attempts(point)
        end = next((attempt for attempt in tries if attempt.state == FINISHED), None)
        last = end or (tries[-1] if tries else None)
        rows.append(
            {**asdict(point), "name": point.name, "attempts": len(tries),
             "state": last.state if last else "not begun", "why": last.why if last else "",
             "kind": last.kind if last else "", "began": last.began if last else "",
             "seconds": last.seconds if last else 0.0,
             "results": str(folder.results(last)) if last and last.results else "",
             "verdicts": list(last.verdicts) if last else [],
             "remarks": list(last.remarks) if last else []}
        )  # fmt: skip
    return {"name": folder.name, "folder": str(folder.path), "points": rows}
