"""The reasons of a verdict as values, and their wording, which is made here and nowhere else."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from labkit.machine.units import figure as short
from labkit.statistics import percentiles
from labkit.statistics.comparison import Effect, figure, named
from labkit.statistics.interval import ends, in_blocks, lacking, percent
from labkit.statistics.steady import changing

NO_STUDY = "labkit has no study of it yet"
IMPORT_HINT = "to judge measurements of other tools: labkit results import --study"
MOST_NAMED = 4
COARSE = "biased by its coarse clock"


class What(StrEnum):
    """The kinds of reasons."""

    SEEN = "seen"
    """The figure beside its limits; it is the least clear of `of` comparisons."""
    REVERSED = "the other way round"
    AS_CLAIMED = "as claimed"
    """`count` of `of` comparisons are clearly so; `about` is what they are called."""
    UNCLEAR = "unclear"
    """The figure, and the blocks that would make it clear."""
    FEW_BLOCKS = "too few blocks"
    FEW_SAMPLES = "too few samples"
    """`number` is the percentile that lacks samples beyond it, and `count` those that it has."""
    CLOSE = "too close to matter"
    DECIDED = "decided earlier"
    NOT_MEASURED = "not measured"
    NOT_THE_DOCUMENTS = "not the document's"
    HARDWARE = "of the document's hardware"
    DECLARED = "declared"
    """Text of the study, of what the hosts are, or of a quantity that divides by nothing."""
    NOISE = "below the noise"
    GIVEN_UP = "given up"
    SPOILT = "spoilt"
    """Most runs are decided by the client, which no more runs mend."""
    SPOILS = "spoils some runs"
    INVALID = "invalid runs"
    CHANGING = "still changing"
    OF_MEANS = "of means"
    SINGLE_RUNS = "of single runs"
    IMPORT_TOGETHER = "import together"
    UNFINISHED = "some runs are still to be made"
    UNMEASURED = "not measured yet"
    NO_STUDY = "no study yet"


@dataclass(frozen=True)
class Reason:
    """One reason: what it is, what about, how many, and how long that takes."""

    what: What
    about: tuple[str, ...] = ()
    said: str = ""
    """Text of a study's declaration, a host, or a gate."""
    effect: Effect | None = None
    low: float | None = None
    """The limits that the figure is beside, or the band of what is too close to matter."""
    high: float | None = None
    side: int = 0
    """-1 below both limits, 1 above; where it is clear, as it was then."""
    count: int = 0
    of: int = 0
    number: float = 0.0
    more: int = 0
    """The number of blocks that would settle it."""
    seconds: float = 0.0
    """The time of these blocks."""

    def __str__(self) -> str:
        words = WORDS[self.what]
        return words if isinstance(words, str) else words(self)


def why(reasons: Iterable[Reason], beside: Effect | None = None) -> str:
    """The reasons as one sentence; the figure that stands `beside` it is not written again."""
    texts = []
    for reason in reasons:
        if beside and reason.what is What.NOT_THE_DOCUMENTS:  # the figure names its conditions
            reason = replace(reason, about=())
        elif beside and reason.effect == beside:
            reason = replace(reason, effect=None)
        texts.append(str(reason))
    return "; ".join(filter(None, texts))


def taking(reason: Reason, seconds: float) -> Reason:
    """The reason with the time of its missing blocks, at these seconds for a block."""
    return replace(reason, seconds=reason.more * seconds) if reason.more else reason


def figures(e: Effect, unit: str = "") -> str:
    """A figure with its interval, or the blocks where there are too few for one."""
    if e.each:
        return f"{e.what} = {short(e.value)}{unit} ({in_blocks(e.each, short)}){_place(e)}"
    if e.equal and not e.counts:
        return f"{e.what} = {short(e.value)}{unit} (in each of {e.blocks} blocks){_place(e)}"
    values = [e.value, *(end for end in (e.low, e.high) if end is not None)]
    # Two digits of the interval's width, so that its ends never look like 1 when they are not.
    width = max(values) - min(values) if len(values) > 1 else abs(e.value)
    width = max(width, 1e-3 * abs(e.value), 1e-9)
    digits = 1 - math.floor(math.log10(width))

    # What would look like 0 beside a wide interval has two digits of its own.
    def write(x: float) -> str:
        first = math.floor(math.log10(abs(x))) if x else 0
        return figure(x, digits if first + digits > 0 else 1 - first)

    within = "" if e.low is None and e.high is None else ends(e.low, e.high, write)
    parts = (e.counts, within, lacking(e.low, e.high, e.blocks), COARSE * e.coarse)
    around = "; ".join(part for part in parts if part)
    return f"{e.what} = {write(e.value)}{unit} ({around}){_place(e)}"


def _place(e: Effect) -> str:
    metric = f" of {e.metric.replace('_', ' ')}" if e.metric else ""
    return (f" at {named(e.percentile)}" if e.percentile else "") + metric


def _effect(r: Reason) -> str:
    return figures(r.effect) if r.effect else ""


def _join(*parts: str, by: str = ", ") -> str:
    return by.join(filter(None, parts))


# Beside one limit, two, or two around what the document prints.
def _beside(r: Reason) -> str:
    side = ("below", "inside", "above")[r.side + 1]
    if r.low is None and r.high is None:
        return ""
    if r.low is None or r.high is None:
        limit = r.high if r.high is not None else r.low or 0.0
        over = r.side > 0 or (r.side == 0 and r.high is None)
        return f"{'above' if over else 'below'} {figure(limit)}"
    printed = r.effect and r.effect.printed
    if not printed or not r.low <= printed <= r.high:
        return f"{side} {figure(r.low, 3)} to {figure(r.high, 3)}"
    digits = 2 if printed > 0.2 and r.low * 1.1 < r.high else 3
    low, high, middle = (figure(x, digits) for x in (r.low, r.high, printed))
    position = "outside" if r.side else "inside"
    return f"{position} {low} to {high} around the document's {middle}"


def _blocks(r: Reason, size: str = "") -> str:
    time = f", {span(max(1, round(r.seconds / 60)))}" if r.seconds else ""
    if r.more > percentiles.MOST_BLOCKS:
        return f"more than {percentiles.MOST_BLOCKS} more blocks{size}{time}"
    return f"about {r.more} more block{'s' * (r.more > 1)}{size}{time}"


def span(minutes: float) -> str:
    """A number of minutes, in hours where there are many."""
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"


# What would be clear alone, and is not clear among all comparisons and looks.
def _unclear(r: Reason) -> str:
    among = f" among {r.of} comparisons" if r.of > 1 else ""
    over = f" at look {r.count}" if r.count > 1 else " at a first look" if not among else ""
    crowd = f"not clear{among}{over}" if r.of else ""
    return _join(_join(_effect(r), crowd), _blocks(r), by=": ")


def _least(r: Reason) -> str:
    return f"the least clear of {_join(str(r.of), *r.about, by=' ')}" if r.of else ""


def _names(r: Reason) -> str:
    return ", ".join(r.about)


def _first(names: Sequence[str]) -> str:
    remainder = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{remainder}"


# What a study would have to measure.
def _no_study(r: Reason) -> str:
    study, *names = r.about
    need = f"it would have to measure {_first(names)} ({r.said})"
    return f"{NO_STUDY}; {need}; {IMPORT_HINT} {study}"


WORDS: Mapping[What, str | Callable[[Reason], str]] = {
    What.SEEN: lambda r: _join(_join(_effect(r), _beside(r)), _least(r), by="; "),
    What.REVERSED: lambda r: _join("the other way round", _effect(r), by=": "),
    What.AS_CLAIMED: lambda r: f"{r.count} of {r.of} {_names(r)}",
    What.UNCLEAR: _unclear,
    What.FEW_BLOCKS: lambda r: f"{r.count} of {r.of} blocks: {_blocks(r)}",
    What.FEW_SAMPLES: lambda r: (
        f"{named(r.number)} needs {percentiles.BEYOND} samples beyond it and has {r.count}: "
        f"{_blocks(r, ' of this size')}"
    ),
    What.CLOSE: lambda r: _join(
        _effect(r),
        f"within {figure(r.low or 0.0, 3)} to {figure(r.high or 0.0, 3)}: too close to matter",
    ),
    What.DECIDED: lambda r: f"decided at {r.count} blocks",
    What.NOT_MEASURED: lambda r: _join("not measured", _first(r.about), r.said, by=": "),
    What.NOT_THE_DOCUMENTS: lambda r: _join(
        _names(r), f"not the document's here: {r.said}", by=": "
    ),
    What.HARDWARE: lambda r: f"the figure is of the document's hardware: {r.said}",
    What.DECLARED: lambda r: r.said,
    What.NOISE: lambda r: f"below this lab's noise of {percent(r.number)}",
    What.GIVEN_UP: lambda r: f"given up, {r.said}",
    What.SPOILT: lambda r: f"{r.said} in most runs of {_names(r)}, so this decides nothing",
    What.SPOILS: lambda r: f"{r.said} in {r.count} of {r.of} runs",
    What.INVALID: lambda r: f"{r.count} invalid run{'s' * (r.count > 1)} made again or left out",
    What.CHANGING: lambda r: changing(_names(r), r.count, r.of),
    What.OF_MEANS: "each run has one value, and their mean is judged",
    What.SINGLE_RUNS: "from single runs cut into stretches, so how runs differ is not in it",
    What.UNFINISHED: "some of its runs are still to be made: labkit run goes on, labkit report "
    "judges these",
    What.UNMEASURED: lambda r: f"not measured yet: labkit run {r.said}",
    What.NO_STUDY: _no_study,
    What.IMPORT_TOGETHER: "import files of it together with those of the others",
}
