"""The figures of claims as measured here, whether or not they test them, and a study's answer.

The answer is one sentence: what was found, how large, and what the document says.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labkit import kernels
from labkit.claim import Claim
from labkit.claims import published
from labkit.claims.published import Headline
from labkit.machine.units import capital
from labkit.results import IMPORTS, Results
from labkit.statistics.comparison import MARGIN, Comparison, Effect, Found, found_of
from labkit.statistics.percentiles import Blocks
from labkit.study import Reading
from labkit.verdict import (
    AGREES,
    CONTRADICTED,
    DIFFERS,
    HOLDS,
    NOT_TESTABLE,
    SAME,
    UNCLEAR,
    LocalFigure,
    Verdict,
)

HARDWARE, KERNEL, GUESTS = "hardware", "this machine's kernel", "emulated guests"
NEAR, CHANCE = "hardly any difference", "the difference may be chance"
"""Reasons to doubt that two things differ."""
LEADS = {"": "", NEAR: f"{NEAR}: ", CHANCE: "no clear difference: "}
OF_VERDICT = {HOLDS: AGREES, CONTRADICTED: DIFFERS}
PLACES = {
    HARDWARE: "these hosts", KERNEL: "this machine's kernel", GUESTS: "emulated guests",
}  # fmt: skip


def local_figure(
    claim: Claim, verdict: Verdict, blocks_of: Mapping[str, Blocks], kinds: Mapping[str, str],
    reach: str, units: Mapping[str, str] | None = None,
) -> LocalFigure | None:  # fmt: skip
    """The figure beside the document's; None where nothing of the claim was measured."""
    comparisons = claim.comparisons()
    able = [c for c in comparisons if all(blocks_of.get(name) for name in c.what.names)]
    findings, _ = found_of((c.asked_of(blocks_of, kinds) for c in able), blocks_of)
    if not findings:
        return None
    strongest = max(findings, key=lambda f: f.p)
    says = {f.comparison: _says(f) for f in findings}
    if wrong := [f for f in findings if says[f.comparison] == DIFFERS]:
        strongest, all_of = min(wrong, key=lambda f: f.p), DIFFERS
    else:
        complete = len(findings) == len(dict.fromkeys(comparisons))
        agree = complete and {*says.values()} == {AGREES}
        all_of = AGREES if agree else UNCLEAR
    if verdict.verdict == NOT_TESTABLE:
        unit = _unit(strongest.comparison, units or {})
        return LocalFigure(all_of, strongest.effect, reach, strongest.p, unit)
    effect = next((r.effect for r in verdict.reasons if r.effect), strongest.effect)
    matches = [f.comparison for f in findings if f.effect.what == effect.what]
    unit = _unit(matches[0], units or {}) if matches else ""
    word = OF_VERDICT.get(verdict.verdict, UNCLEAR)
    if verdict.verdict == SAME and strongest.comparison.order:
        word = DIFFERS  # an order that is the same within the margin is none
    return LocalFigure(word, effect, reach, verdict.p or strongest.p, unit)


# What is a part of a whole has no unit that a reader would miss.
def _unit(c: Comparison, units: Mapping[str, str]) -> str:
    units_of = {units.get(name, "") for name in c.what.names} - {"share", "1"}
    return units_of.pop() if len(units_of) == 1 and c.what.keeps_unit else ""


def _says(f: Found) -> str:
    c, ends = f.comparison, f.estimate.interval()
    inside = c.low <= ends.low and ends.high <= c.high
    outside = ends.high < c.low or ends.low > c.high
    if not f.estimate.enough or not (inside or outside):
        return UNCLEAR
    return AGREES if inside != c.outside else DIFFERS


def reach_of(names: list[str], results: Results) -> str:
    """The reach of figures of these names: hardware, a real kernel, or emulated guests."""
    if results.asked.get("lab", {}).get("tier", "hosts") in ("hosts", IMPORTS):
        return HARDWARE
    on = kernels.labels(names, results.asked.get("kernels", {}))
    return KERNEL if on and not any(map(kernels.is_emulated, on)) else GUESTS


@dataclass(frozen=True)
class AnswerFigure:
    """The figure that answers a study, and the words for it."""

    headline: Headline
    effect: Effect
    reach: str
    tested: bool
    """Whether the claim behind it can be tested here; else this is a finding of this lab alone."""

    def __str__(self) -> str:
        doubt = f", so {self.doubt}" if self.doubt else ""
        text = f"{capital(self._words)}, {self.extent}{doubt}"
        return f"{text}; {self.headline.documented}. Measured on {self.place}."

    @property
    def statement(self) -> str:
        """What was measured, with its figure; a doubt comes first."""
        return capital(f"{LEADS[self.doubt]}{self._words}")

    @property
    def _words(self) -> str:
        unit = {"percent": "%", "times": "times", "number": self.headline.unit}[self.headline.form]
        figure = f"{self._write(self.effect.value)} {unit}".rstrip()
        return self.headline.says.format(figure)

    @property
    def clear(self) -> str:
        """How clear a difference it is; empty where nothing is compared."""
        is_clear = self.headline.compares and self.is_interval
        return self.doubt or "a clear difference" * is_clear

    @property
    def extent(self) -> str:
        """How far repeats let the figure be from where it is."""
        e, write = self.effect, self._write
        if len(e.each) == 1:
            return "in 1 repeat"
        low, high = self._ends()
        if low is None or high is None:
            return f"not known any closer after {_repeats(e.blocks)}"
        repeats = _repeats(len(e.each) or e.blocks)
        if e.equal:
            return f"in each of {repeats}"
        unit = " %" * (self.headline.form == "percent")
        return f"{write(low)} to {write(high)}{unit} in {repeats}"

    @property
    def is_interval(self) -> bool:
        """Whether the extent is an interval, and not the figures of few blocks."""
        return not self.effect.each and not self.effect.equal and None not in self._ends()

    @property
    def doubt(self) -> str:
        """Why a comparison may have found nothing; empty if it has, or does not compare."""
        low, high = self._ends()
        one_figure = len(self.effect.each) == 1 or self.effect.equal
        if low is None or high is None or one_figure or not self.headline.compares:
            return ""
        if not low <= 1 <= high:
            return ""
        near = max(1 - low, high - 1) < MARGIN
        return NEAR if near else CHANCE

    @property
    def place(self) -> str:
        """On what it was measured, and whether that tests the document's claim."""
        local = "" if self.tested else ", which does not test the document's claim"
        return f"{PLACES[self.reach]}{local}"

    def _ends(self) -> tuple[float | None, float | None]:
        e = self.effect
        return (min(e.each), max(e.each)) if e.each else (e.low, e.high)

    # Two digits of what is known.
    def _write(self, x: float) -> str:
        scale = 100 if self.headline.form == "percent" else 1
        ends = [end for end in (self.effect.low, self.effect.high, *self.effect.each) if end]
        counts = all(math.isclose(n, round(n)) for n in (self.effect.value, *ends))
        if scale == 1 and counts and (ends or self.headline.form == "number"):
            return f"{x:,.0f}"
        apart = max(ends) - min(ends) if len(ends) > 1 else 0.0
        # Equal blocks differ by rounding alone.
        width = scale * (apart if apart > abs(x) / 10_000 else abs(x) / 10) or 1.0
        fewest = 0 if scale == 100 or abs(x) >= 10 else 1 - math.floor(math.log10(abs(x) or 1))
        digits = min(max(-math.floor(math.log10(width)), fewest, 0), 4)
        # What is near 1 is not written as 1, which would be no difference at all.
        if self.headline.compares and x != 1 and round(scale * x, digits) == scale:
            digits += 1
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
    return answer_text(reading, find_figure(reading, verdicts))


def answer_text(reading: Reading, figure: AnswerFigure | None) -> str:
    """The same of a figure that is known."""
    first = next(iter(headlines(reading.study.name)), None)
    if first is None:
        return ""
    if figure:
        return str(figure)
    refusals = reading.results.asked.get("refused", {})
    reason = f": {next(iter(refusals.values()))}" if refusals else ""
    return capital(f"not answered here{reason}; {first.documented}.")


def headlines(study: str) -> tuple[Headline, ...]:
    """The ways to say the answer of a study, the best first."""
    return published.published(study).answers if study in published.names() else ()
