"""The folder of a campaign: what was asked, what became of each point, and the report.

out/campaigns/<name>/
    campaign.json                        the points in their order, and the file's text
    points/0007-lat_ping-<key>/          one folder per point:
        attempt-1.json                   each try: state, times, error, verdicts
        notebook.ipynb notebook.html     what the last try came to
    report/index.html                    the report of all, to open anywhere
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labkit import __version__, errors
from labkit.campaign.asked import Campaign, CampaignPoint
from labkit.campaign.places import holding
from labkit.errors import BadInput, ResultsError
from labkit.machine import records
from labkit.machine.places import out
from labkit.pages.terminal import table

FORMAT = 1
MOST_ROWS = 60
LARGE = 8
"""A campaign of very many points is written in a file that is larger than others."""
TEMPORARY = "labkit-campaign-"
"""Prefix of the names of folders for temporary files."""
PASSING = (errors.Unreachable, errors.TimedOut, errors.Busy, errors.FleetFailed, errors.KernelDied)
"""Errors that may pass by themselves, so that a point is tried again."""
LASTING = (errors.LoginRefused,)
"""Of those, the ones that a person has to help with."""
FIRST_PAUSE, MOST_PAUSE = 5.0, 300.0
BEGUN, FINISHED, FAILED, DIED, STOPPED = "begun", "finished", "failed", "died", "stopped"


@dataclass(frozen=True)
class Attempt:
    """One try at a point, by one process; `kind` is the class of the error that ended it."""

    number: int
    state: str
    began: str
    temporary: str = ""
    """The folder for its temporary files, to be removed after its death."""
    seconds: float = 0.0
    kind: str = ""
    why: str = ""
    results: str = ""
    verdicts: Sequence[Mapping[str, Any]] = ()
    remarks: Sequence[str] = ()

    @classmethod
    def begin(cls, number: int, temporary: str = "") -> Attempt:
        """The attempt of this process, beginning now."""
        return cls(number, BEGUN, datetime.now(UTC).isoformat(timespec="milliseconds"), temporary)

    @classmethod
    def read(cls, file: Path) -> Attempt:
        """Read an attempt from a file; what another labkit has written beside it is left out."""
        record, known = records.read_json(file), {own.name for own in fields(cls)}
        try:
            return cls(**{name: value for name, value in record.items() if name in known})
        except TypeError as error:
            problem = f"{file}: is not an attempt of this labkit"
            raise ResultsError(problem, said=str(error)) from None

    @property
    def may_pass(self) -> bool:
        """Whether what ended it may be gone the next time."""
        error = getattr(errors, self.kind, None)
        if not isinstance(error, type):
            return self.state == DIED
        return issubclass(error, PASSING) and not issubclass(error, LASTING)

    @property
    def leaves_settings(self) -> bool:
        """Whether settings may still be in force, as nobody put them back."""
        return self.state in (BEGUN, DIED) or self.kind == "KernelDied"

    def ended(self, state: str, reason: str = "", kind: str = "") -> Attempt:
        """The same, now that it has ended."""
        took = datetime.now(UTC) - datetime.fromisoformat(self.began)
        return replace(self, state=state, why=reason, kind=kind, seconds=took.total_seconds())

    def settle(self, folder: Path, state: str, reason: str, kind: str = "") -> Attempt:
        """Write down the end of a process that could not do so; its temporary files go."""
        temporary = Path(self.temporary)
        if temporary.name.startswith(TEMPORARY) and temporary.parent == Path(tempfile.gettempdir()):
            shutil.rmtree(temporary, ignore_errors=True)
        return self.ended(state, reason, kind).keep(folder)

    def keep(self, folder: Path) -> Attempt:
        """Write it down, safe on disk when this returns."""
        with records.keeping(f"what became of {folder.name}"):
            folder.mkdir(parents=True, exist_ok=True)
            records.write(folder / f"attempt-{self.number}.json", records.pretty(asdict(self)))
        return self


NOT_BEGUN = Attempt(0, "not begun", "")


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
        new = cls(path, campaign.name, tuple(points), campaign.text, str(campaign.path))
        if not (path / "campaign.json").exists():
            return new._keep()
        existing = cls.open(path)
        if existing.points != new.points:
            before, after = ({point.key for point in of.points} for of in (existing, new))
            counts = f"{len(before - after)} are not in the file, {len(after - before)} are new"
            odd = counts if before != after else "their order differs"
            hint = f'give this one another name: name = "{campaign.name}-2"'
            raise BadInput(f"{path} holds a campaign of other points: {odd}", hint=hint)
        return existing

    def _keep(self) -> CampaignFolder:
        content = {
            "format": FORMAT, "name": self.name, "file": self.file, "labkit": __version__,
            "text": self.text, "points": [asdict(point) for point in self.points],
        }  # fmt: skip
        with records.keeping(f"the campaign {self.name}"):
            self.path.mkdir(parents=True, exist_ok=True)
            records.write(self.path / "campaign.json", records.pretty(content))
        return self

    def numbered(self, number: int) -> CampaignPoint:
        """The point of this number."""
        return next(point for point in self.points if point.number == number)

    def of(self, point: CampaignPoint) -> Path:
        """The folder of a point."""
        return self.path / "points" / point.name

    def attempts(self, point: CampaignPoint) -> list[Attempt]:
        """All attempts at a point, the first one first."""
        files = self.of(point).glob("attempt-*.json")
        return sorted(map(Attempt.read, files), key=lambda attempt: attempt.number)

    def finished(self, point: CampaignPoint) -> Attempt | None:
        """The attempt that came to its end; None if none did yet."""
        return next((tried for tried in self.attempts(point) if tried.state == FINISHED), None)

    def results(self, attempt: Attempt) -> Path:
        """The folder of a finished attempt's runs; they may have moved together with this."""
        return self.path.parents[1] / attempt.results

    def held(self) -> AbstractContextManager[None]:
        """Hold the campaign, so that no other process runs it too."""
        return holding(self.path / ".held", f"the campaign {self.name}")


def folder_of(name: str) -> Path:
    """The folder of the campaign of that name."""
    return out() / "campaigns" / name


def named_campaign(name: str) -> CampaignFolder:
    """The campaign that somebody names: its folder, its file, or its name."""
    path = Path(os.path.expanduser(name))
    if path.suffix == ".toml":
        return CampaignFolder.open(folder_of(Campaign.read(path).name))
    for folder in (path, folder_of(name)):
        if (folder / "campaign.json").is_file():
            return CampaignFolder.open(folder.resolve())
    names = sorted(file.parent.name for file in out().glob("campaigns/*/campaign.json"))
    hint = f"known: {', '.join(names)}" if names else "labkit campaign run FILE"
    raise ResultsError(f"no campaign {name}", hint=hint)


def told(folder: CampaignFolder) -> dict[str, Any]:
    """The whole campaign for a machine to read."""
    rows = []
    for point in folder.points:
        tries = folder.attempts(point)
        last = next((tried for tried in tries if tried.state == FINISHED), [NOT_BEGUN, *tries][-1])
        facts = {name: value for name, value in asdict(last).items() if name != "temporary"}
        results = str(folder.results(last)) if last.results else ""
        rows.append({**facts, **asdict(point), "name": point.name, "attempts": len(tries),
                     "results": results})  # fmt: skip
    return {"name": folder.name, "folder": str(folder.path), "points": rows}


def ended(facts: Mapping[str, Any]) -> str:
    """Describe the state of a campaign: numbers of points, verdicts, and each point that failed."""
    points = facts["points"]
    states = Counter(str(point["state"]) for point in points)
    verdicts = Counter(str(v["verdict"]) for point in points for v in point["verdicts"])
    lines = [f"{facts['name']}: {counted(states)}"]
    lines += [f"verdicts  {counted(verdicts)}"] if verdicts else []
    head = ("number", "study", "state", "attempts")
    fails = (row for row in points if row["why"])
    if wrong := [(*(row[key] for key in head), row["why"].splitlines()[0]) for row in fails]:
        lines += ["", table(wrong[:MOST_ROWS], ("point", *head[1:], "why"))]
    return "\n".join(lines)


def counted(counts: Mapping[str, int]) -> str:
    """Numbers and what each is of, in words."""
    return ", ".join(f"{number} {word}" for word, number in counts.items())


def pause(tries: int) -> float:
    """Seconds to wait before the next try, longer each time."""
    return float(min(FIRST_PAUSE * 3 ** max(tries - 1, 0), MOST_PAUSE))
