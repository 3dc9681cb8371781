"""Why intervals of one kind of latency hold less or more often than they say."""

from labkit.statistics.pooled import BEYOND, beyond

REASONS = {
    ("each block x 3 with 10 %", "value"):
        "few blocks seldom show slow ones in their share of one in ten; if they show two, a remark "
        "names two states",
    ("each block x 3 with 10 %", "ratio"):
        "one condition has a slow block and the other has none, so two states are compared",
    ("one block x 3", "ratio"):
        "both conditions have the same slow block, and the interval allows for unlike ones",
}  # fmt: skip
MISSED = {
    "lognormal, blocks 20 %":
        "equal pairs, and effects of 5 and 10 %, mostly need more blocks than the budget has",
    "AR(1) 0.9": "equal pairs, and effects of 5 %, mostly need more blocks than the budget has",
    "drift": "one in ten of equal pairs, and of effects of 5 %, go on to the end of the budget",
    "1-us steps at 8 us":
        "one in five of equal pairs, and of effects of 5 %, go on to the end of the budget, as "
        "what the clock leaves over does not shrink with blocks",
}  # fmt: skip
"""Why a study that stops by itself takes more than the goal."""


def why(name, figure, q, blocks, samples, chance):
    """The reason of a cell of the page of proof that lies outside."""
    few = beyond(q, blocks * samples)
    if few < BEYOND and name != "one block x 3" and not chance:
        are = "sample lies" if few == 1 else "samples lie"
        return f"{few} {are} beyond it, so it is not called measured, and no verdict rests on it"
    if chance and (figure == "ratio" or (name, figure) not in REASONS):
        return chance
    return REASONS[name, figure]
