"""The controls of a lab: it finds what was put in, with its size, and nothing in nothing.

The positive control puts a known delay into the link between client and server, which must be found
with its size. The negative control compares that link with itself, which must find nothing. The
interval of the latter is also the smallest difference that the lab can see.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labkit.errors import ResultsError
from labkit.machine.places import out
from labkit.results import Results
from labkit.statistics.estimate import estimated, ratio
from labkit.statistics.interval import Interval, percent
from labkit.statistics.pooled import Pooled
from labkit.statistics.quantity import Quantity
from labkit.workloads.ping import Ping

STUDY = "controls"
FIRST_SIDE, SECOND_SIDE = "as it is", "as it is, again"
SOME_DELAY, MORE_DELAY = "some delay", "more delay"
METRIC, UNIT = "round trip", "us"
TOLERANCE = 0.1
"""Of what is put in: a delay of a kernel or a relay is no exacter than that."""
FEWEST_BLOCKS = 3
NONE_KEPT = "No controls were run on this lab before it was measured (labkit controls)."


@dataclass(frozen=True)
class NotMade:
    """No controls of a lab, as they run between two hosts of it."""

    why: str

    def lines(self) -> list[str]:
        """The reason, as a sentence."""
        return [f"No controls: they run from a client to a server, and {self.why}."]


@dataclass(frozen=True)
class Controls:
    """The results of a lab's controls; times in microseconds of a round trip."""

    lab: str
    when: str
    blocks: int
    median: float
    put_in: float
    found: Interval | None
    """Increase of the median; None if nothing could be put in."""
    lacking: str
    """Reason why nothing could be put in."""
    equal: Interval
    """The median of a link divided by that of the same link."""
    results: str

    @property
    def size_found(self) -> bool:
        """Whether what was put in was found, with its size."""
        if self.found is None:
            return False
        off = TOLERANCE * self.put_in
        within = self.found.low - off <= self.put_in <= self.found.high + off
        return self.found.enough and self.found.low > 0 and within

    @property
    def nothing_found(self) -> bool:
        """Whether equal against equal came out equal; by chance it does not in 5 of 100."""
        return self.equal.enough and self.equal.low <= 1 <= self.equal.high

    @property
    def passed(self) -> bool:
        """Whether both controls came out as they must."""
        return self.size_found and self.nothing_found

    @property
    def failed(self) -> bool:
        """Whether a control came out as it must not; one that could not be made has not failed."""
        return (self.found is not None and not self.size_found) or (
            self.equal.enough and not self.nothing_found
        )

    @property
    def smallest(self) -> float:
        """The smallest difference of medians that is a finding here, as a share of the median."""
        return max(self.equal.high, 1 / self.equal.low) - 1

    def lines(self) -> list[str]:
        """A sentence for each control, and one for the smallest difference."""
        smallest = (
            f"Smallest difference of median round trips that this lab can see: "
            f"{percent(self.smallest)}"
            f" ({self.smallest * self.median:.2g} µs on top of {self.median:.3g} µs,"
            f" {self.when[:10]})."
        )
        return [self._positive(), self._negative(), smallest]

    def _positive(self) -> str:
        if self.found is None:
            return f"Positive control not made: {self.lacking}."
        delay = f"{_ms(self.found.value)} ({self.found.ends(_ms)})"
        verdict = "passed" if self.size_found else "FAILED"
        doubt = "" if self.size_found else ", so do not trust sizes measured here"
        return f"Positive control {verdict}: {_ms(self.put_in)} ms put in, {delay} found{doubt}."

    def _negative(self) -> str:
        ends = f"{self.equal.value:.2f} ({self.equal.ends('{:.2f}'.format)})"
        if not self.equal.enough:
            return f"Negative control undecided: too few blocks; equal against equal: {ends}."
        if self.nothing_found:
            return f"Negative control passed: equal against equal is {ends}: no clear difference."
        return (
            f"Negative control FAILED: equal against equal is {ends}. One in twenty fails by"
            " chance: run the controls again, and look at what else runs on the hosts."
        )

    def kept_as(self) -> dict[str, Any]:
        """The form in which results of the same lab keep it."""
        return {**asdict(self), "results": os.path.relpath(self.results, out())}


def of_results(results: Results) -> Controls:
    """The controls that these runs hold, from the raw text of each."""
    sides: dict[str, dict[int, Any]] = {}
    for run in results.finished():
        sample = Ping.parse(run.text("ping.txt"))[0]
        sides.setdefault(run.condition, {})[run.block] = sample.values
    if len(set(sides.get(FIRST_SIDE, ())) & set(sides.get(SECOND_SIDE, ()))) < FEWEST_BLOCKS:
        raise ResultsError(f"{results.path}: holds fewer than {FEWEST_BLOCKS} blocks of controls")
    question = results.asked
    longer = Quantity(f"'{MORE_DELAY}' - '{SOME_DELAY}'")
    found = estimated(longer, sides).interval() if {*longer.names} <= sides.keys() else None
    return Controls(
        str(question["lab"]["name"]), str(question["when"]), len(sides[FIRST_SIDE]),
        Pooled.of(sides[FIRST_SIDE]).percentile(50), float(question["put_in"]),
        found, str(question["lacking"]), ratio(sides[FIRST_SIDE], sides[SECOND_SIDE], 50),
        str(results.path),
    )  # fmt: skip


def folder(lab: str, study: str = STUDY) -> Path:
    """The folder that keeps the controls of a lab, or the noise of a study on it."""
    # Beside the studies' results, but not among them: these have no claims. Two labs may have
    # names that differ in signs only which no folder can have.
    digest = hashlib.sha256(json.dumps(lab).encode()).hexdigest()[:8]
    plain = "".join(c if c.isalnum() else "-" for c in lab)[:40]
    return out() / "noise" / f"{plain}-{digest}" / study


def kept(lab: str) -> Controls | None:
    """The newest controls of a lab that came to their end; None if there are none."""
    files = folder(lab).glob("*/study.json")
    for file in sorted(files, key=lambda file: file.stat().st_mtime, reverse=True):
        try:
            return of_results(Results.open(file.parent))
        except ResultsError:
            continue
    return None


def said_of(results: Results) -> list[str]:
    """The outcome of their lab's controls for a reader of results, a sentence each.

    Imported results have no lab, and so nothing is said of one.
    """
    if fields := results.asked.get(STUDY):
        return from_kept(fields).lines()
    lab = results.asked.get("lab", {})
    if not lab.get("hosts"):
        return []
    # Those of another machine may have a lab of the same name.
    is_local = results.path.is_relative_to(out())
    controls = kept(str(lab.get("name", ""))) if is_local else None
    return controls.lines() if controls else [NONE_KEPT]


def from_kept(fields: Mapping[str, Any]) -> Controls:
    """The controls that results of their lab have kept."""
    try:
        interval = fields["found"] and Interval.of(fields["found"])
        return Controls(**{**fields, "found": interval, "equal": Interval.of(fields["equal"])})
    except (TypeError, KeyError) as error:
        problem = "these results hold controls of another labkit version"
        raise ResultsError(problem, said=str(error)) from None


def _ms(microseconds: float) -> str:
    return f"{microseconds / 1000:.2f}"
