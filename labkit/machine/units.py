"""Units and figures as people write them; what machines read keeps the plain letters."""

from __future__ import annotations


def shown(unit: str) -> str:
    """A unit for people: `µs` where results and JSON say `us`."""
    return "µs" if unit == "us" else unit


def figure(value: float) -> str:
    """A number for a sentence."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
