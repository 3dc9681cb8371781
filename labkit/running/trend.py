"""Results of a study over time: where a claim's figure or a condition's median has changed.

A session, which is one folder of results, is the unit: it gives one figure to each series. All
series share one risk of 5 % (Holm).
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from labkit import studies
from labkit.errors import BadInput, LabkitError, ResultsError
from labkit.results import Results
from labkit.runs import bundle
from labkit.runs.index import chosen, found
from labkit.statistics.estimate import estimated
from labkit.statistics.odd_blocks import SHUFFLES, ChangePoint, change_points, drift
from labkit.statistics.percentiles import percentile
from labkit.statistics.spending import RISK, holm
from labkit.study import Reading, Study
from labkit.verdict import named

PER_SERIES = 40
FEWEST = 8
"""Of fewer sessions no order is unlikely enough."""
DESIGN = ("workload", "also", "conditions", "events", "scaled", "sizes", "scale")


@dataclass(frozen=True)
class TrendSession:
    """One execution of the study: when it began, and its figures by the names of series."""

    path: str
    label: str
    started: str
    figures: Mapping[str, float]
    version: str = ""
    """Of labkit, as its runs have it."""


@dataclass(frozen=True)
class Change:
    """A series that has changed: from which session on, from what to what."""

    series: str
    session: str
    started: str
    before: float
    after: float
    p: float
    """Among all series."""
    drift: bool = False
    """Whether it went from `before` to `after` little by little, from this session on."""


@dataclass(frozen=True)
class Trends:
    """Findings from all sessions of a study on a lab."""

    study: str
    lab: str
    sessions: tuple[TrendSession, ...]
    series: tuple[str, ...]
    changes: tuple[Change, ...]
    left_out: tuple[str, ...] = ()


def trend(study: str, folders: Sequence[Path] = (), *, since: str = "", lab: str = "") -> Trends:
    """Look for changes in the sessions of a study since a day, a time, or a session's label."""
    study_of = studies.find(study)
    sessions_all, unread = _read_sessions(study_of, folders)
    if not sessions_all:
        raise ResultsError(f"there are no results of {study} here", hint=f"labkit run {study}")
    lab = lab or _lab(sessions_all[-1][1])
    sessions_here = [(at, results) for at, results in sessions_all if _lab(results) == lab]
    if not sessions_here:
        labs = ", ".join(sorted({_lab(results) for _, results in sessions_all}))
        raise BadInput(f"no results of {study} are of the lab {lab!r}", hint=f"known: {labs}")
    alike, unlike = _of_one_design(_since(sessions_here, since))
    sessions = [_session(study_of, at, results) for at, results in alike]
    if len(sessions) < FEWEST:
        number = f"{len(sessions)} session{'s' * (len(sessions) != 1)}"
        problem = f"{number} of {study} on {lab}: too few for a trend"
        rest = f"{len(unlike)} of another design are left out" if unlike else ""
        raise BadInput(problem, said=rest, hint=f"{FEWEST} are enough to begin with")
    series = [name for name in sessions[-1].figures if all(name in s.figures for s in sessions)]
    return Trends(
        study, lab, tuple(sessions), tuple(series), tuple(_changes(sessions, series)),
        (*unlike, *unread),
    )  # fmt: skip


def _read_sessions(
    study: Study, folders: Sequence[Path]
) -> tuple[list[tuple[str, Results]], tuple[str, ...]]:
    read, unread = [], []
    for path in found(chosen(tuple(folders))):
        try:
            results = Results.open(path if path.is_dir() else bundle.open_bundle(path))
            if results.study == study.name and (runs := results.finished()):
                read.append((min(run.started for run in runs), results))
        except LabkitError as error:
            unread.append(error.what)
    return sorted(read, key=lambda session: session[0]), tuple(unread)


def _lab(results: Results) -> str:
    return str(results.asked.get("lab", {}).get("name", ""))


def _since(sessions: list[tuple[str, Results]], since: str) -> list[tuple[str, Results]]:
    if not since:
        return sessions
    moments = [at for at, s in sessions if since in (s.asked.get("label"), s.path.name)]
    try:
        begin = _time(moments[0] if moments else since)
    except ValueError:
        problem = f"--since {since[:80]!r} is neither a day nor the label of a session"
        raise BadInput(problem, hint="such as --since 2026-01-31") from None
    return [(at, results) for at, results in sessions if at and _time(at) >= begin]


def _time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


# The design of the newest; older ones that asked something else are named.
def _of_one_design(
    sessions: list[tuple[str, Results]],
) -> tuple[list[tuple[str, Results]], list[str]]:
    if not sessions:
        return [], []
    designs = [[results.asked.get(key) for key in DESIGN] for _, results in sessions]
    alike = [s for s, design in zip(sessions, designs, strict=True) if design == designs[-1]]
    unlike = [results.path for at, results in sessions if (at, results) not in alike]
    return alike, [f"{path}: has another load, or other conditions" for path in unlike]


def _session(study: Study, at: str, results: Results) -> TrendSession:
    figures = _compare(study, results)
    for name, blocks in study.blocks(results).items():
        medians = sorted(percentile(values, 50) for values in blocks.values())
        figures[f"median of {name}"] = medians[len(medians) // 2]
    label, facts = str(results.asked.get("label", "")), results.finished()[0].facts
    version = str(facts.get("versions", {}).get("labkit", ""))
    return TrendSession(str(results.path), label, at, figures, version)


# Each comparison of a claim is a series. No verdict is made, so that no look is taken.
def _compare(study: Study, results: Results) -> dict[str, float]:
    reading, figures = Reading(study, results), {}
    blocks_of, kinds = reading.measured, reading.kinds
    for claim in study.claims:
        if claim.missing(blocks_of):
            continue
        for q in dict.fromkeys(c.asked_of(blocks_of, kinds).what for c in claim.comparisons()):
            of = f" at {named(q.statistic)}" if not isinstance(q.statistic, str) else ""
            with suppress(LabkitError):
                figures[f"{claim.id}: {q.shown}{of}"] = estimated(q, blocks_of).value
    return figures


def _changes(sessions: Sequence[TrendSession], series: Sequence[str]) -> list[Change]:
    points: dict[str, list[ChangePoint]] = defaultdict(list)
    series_of: dict[str, list[float]] = {}
    # So many that the least p value of one is clear among all.
    shuffles = max(SHUFFLES, PER_SERIES * len(series))
    # Where all figures lie above 0 a change counts by its factor.
    by_factor = {name for name in series if min(s.figures[name] for s in sessions) > 0}
    for name in series:
        values = [session.figures[name] for session in sessions]
        series_of[name] = [*map(math.log, values)] if name in by_factor else values
        points[name] = change_points(series_of[name], shuffles=shuffles)
    smallest = [min((point.p for point in points[name]), default=1.0) for name in series]
    clear = dict(zip(series, holm(smallest), strict=True))
    changes = []
    for name in (key for key in series if clear[key] <= RISK):
        line = drift(series_of[name], points[name])
        steps = [(0, *line)] if line else [(p.at, p.before, p.after) for p in points[name]]
        for at, *ends in steps:
            before, after = map(math.exp, ends) if name in by_factor else ends
            since = sessions[at]
            changes.append(Change(name, since.label or since.path, since.started, before, after,
                                  clear[name], drift=bool(line)))  # fmt: skip
    return changes
