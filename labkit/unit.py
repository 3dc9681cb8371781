"""Units as people write them; what machines read keeps the plain letters."""

from __future__ import annotations


def shown(unit: str) -> str:
    """A unit for people: `µs` where results and JSON say `us`."""
    return "µs" if unit == "us" else unit
