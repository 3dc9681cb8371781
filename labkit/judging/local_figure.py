"""The figure of every claim as it was measured here, whether or not that tests the claim."""

from collections.abc import Mapping

from labkit import kernels
from labkit.claim import Claim
from labkit.results import IMPORTS, Results
from labkit.statistics.comparison import Comparison, Found, found_of
from labkit.statistics.percentiles import Blocks
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
OF_VERDICT = {HOLDS: AGREES, CONTRADICTED: DIFFERS}


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
