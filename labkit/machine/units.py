"""Units, figures and first words as people write them; machines read plain letters."""

import re


def shown(unit: str) -> str:
    """A unit for people: `µs` where results and JSON say `us`."""
    return "µs" if unit == "us" else unit


def figure(value: float) -> str:
    """A number for a sentence: three digits, or all of a large one."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def capital(words: str) -> str:
    """Words that begin a sentence or title; names in them, as of a size 65K, stay as they are."""
    return words[:1].upper() + words[1:]


def by_numbers(text: object) -> list[str | float]:
    """A key to sort by, where a number in a text is worth what it says: run2 before run10."""
    parts = re.split(r"(\d+(?:\.\d+)?)", str(text))
    return [float(part) if at % 2 else part for at, part in enumerate(parts)]


TIMES = ("ns", "us", "ms", "s")
MORE_IS_BETTER = ("performance", "speed", "throughput", "bandwidth", "iops")


def more_is_better(metric: str, unit: str) -> bool | None:
    """Whether a larger figure is the better one; None where nothing says."""
    if unit in TIMES:
        return False
    if "/" in unit or any(word in metric for word in MORE_IS_BETTER):
        return True
    return None


def spoken(seconds: float) -> str:
    """A span of time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
