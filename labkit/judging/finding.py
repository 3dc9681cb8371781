"""The answer to a study in one sentence: what was found, how large, and what the document says."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.claims import published
from labkit.claims.published import Headline
from labkit.judging.local_figure import GUESTS, HARDWARE, KERNEL, reach_of
from labkit.judging.reading import Reading
from labkit.machine.units import capital
from labkit.statistics.comparison import MARGIN, Comparison, Effect, found_of
from labkit.verdict import NOT_TESTABLE, Verdict

PLACES = {
    HARDWARE: "these hosts", KERNEL: "this machine's kernel", GUESTS: "emulated guests",
}  # fmt: skip


@dataclass(frozen=True)
class AnswerFigure:
    """The figure that answers a study, and the words for it."""

    headline: Headline
    effect: Effect
    reach: str
    tested: bool
    """Whether the claim behind it can be tested here; else this is a finding of this lab alone."""

    def __str__(self) -> str:
        unit = {"percent": "%", "times": "times", "number": self.headline.unit}[self.headline.form]
        figure = f"{self._write(self.effect.value)} {unit}".rstrip()
        text = f"{self.headline.says.format(figure)}, {self._within()}"
        local = "" if self.tested else ": this does not test the document's claim"
        place = f"Measured on {PLACES[self.reach]}{local}."
        return f"{capital(text)}; {self.headline.documented}. {place}"

    def _within(self) -> str:
        e, write = self.effect, self._write
        if len(e.each) == 1:
            return "in 1 repeat"
        low, high = (min(e.each), max(e.each)) if e.each else (e.low, e.high)
        if low is None or high is None:
            return f"not known any closer after {_repeats(e.blocks)}"
        repeats = _repeats(len(e.each) or e.blocks)
        if e.equal:
            return f"in each of {repeats}"
        extent = f"{write(low)} to {write(high)} in {repeats}"
        if not self.headline.compares or not low <= 1 <= high:
            return extent
        near = max(1 - low, high - 1) < MARGIN
        return f"{extent}, so {'hardly any difference' if near else 'the difference may be chance'}"

    # Two digits of what is known.
    def _write(self, x: float) -> str:
        scale = 100 if self.headline.form == "percent" else 1
        ends = [end for end in (self.effect.low, self.effect.high, *self.effect.each) if end]
        counts = all(float(number).is_integer() for number in (self.effect.value, *ends))
        if scale == 1 and ends and counts:
            return f"{x:,.0f}"
        apart = max(ends) - min(ends) if len(ends) > 1 else 0.0
        # Equal blocks differ by rounding alone.
        width = scale * (apart if apart > abs(x) / 10_000 else abs(x) / 10) or 1.0
        fewest = 0 if scale == 100 or abs(x) >= 10 else 1 - math.floor(math.log10(abs(x) or 1))
        digits = min(max(-math.floor(math.log10(width)), fewest, 0), 4)
        return f"{scale * x:,.{digits}f}"


# A number of blocks, as people call them.
def _repeats(blocks: int) -> str:
    return f"{blocks} repeat{'s' * (blocks != 1)}"


def find_figure(reading: Reading, verdicts: Sequence[Verdict]) -> AnswerFigure | None:
    """The first of the study's headlines that was measured; None if none was."""
    without_test = {v.claim for v in verdicts if v.verdict == NOT_TESTABLE}
    for headline in headlines(reading.study.name):
        if not all(reading.measured.get(name) for name in headline.what.names):
            continue
        comparison = Comparison(headline.what).asked_of(reading.measured, reading.kinds)
        if findings := found_of([comparison], reading.measured)[0]:
            reach = reach_of([*headline.what.names], reading.results)
            tested = headline.claim not in without_test
            return AnswerFigure(headline, findings[0].effect, reach, tested)
    return None


def sentence(reading: Reading, verdicts: Sequence[Verdict]) -> str:
    """The answer as a reader gets it; empty for a study that says of nothing how it is answered."""
    first = next(iter(headlines(reading.study.name)), None)
    if first is None:
        return ""
    if figure := find_figure(reading, verdicts):
        return str(figure)
    refusals = reading.results.asked.get("refused", {})
    reason = f": {next(iter(refusals.values()))}" if refusals else ""
    return capital(f"not answered here{reason}; {first.documented}.")


def headlines(study: str) -> tuple[Headline, ...]:
    """The ways to say the answer of a study, the best first."""
    return published.published(study).answers if study in published.names() else ()
