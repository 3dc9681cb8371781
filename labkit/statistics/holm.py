"""One risk of being wrong, shared by everything that is looked at together."""

from collections.abc import Sequence

RISK = 0.05


def holm(p: Sequence[float]) -> list[float]:
    """Each p value as it counts when all are looked at (Holm's step-down), in the same order."""
    risks, largest = [0.0] * len(p), 0.0
    for rank, at in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[at]))
        risks[at] = largest
    return risks
