"""The counters of a file that somebody means, and short names for them."""

import re
from collections.abc import Sequence
from fnmatch import translate

from labkit.errors import BadInput, Unknown

# \\host\Group Cpu(7:web)\% Ready: where, of what, and what is counted.
PARTS = re.compile(r"\\\\[^\\]*\\(.+)\\([^\\]+)")
MOST_KNOWN = 40
"""A longer list of what there is helps nobody."""
INSTANCE = re.compile(r".*\((?:\d+:)?(.+)\)")


def matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The names that a pattern is a part of; * and ? stand for any text and any letter."""
    matches: dict[str, None] = {}
    for pattern in patterns:
        literal = pattern.replace("[", "[[]")  # names have brackets of their own
        regex = re.compile(translate(f"*{literal}*"), re.IGNORECASE)
        fitting = [name for name in names if regex.match(name)]
        if not fitting:
            parts = sorted({(PARTS.fullmatch(name) or ["", "", name])[2] for name in names})
            if len(parts) <= MOST_KNOWN:
                raise Unknown("counter", pattern, parts)
            hint = "`counters(FILE)` lists them all"
            raise BadInput(f"no counter of {len(names)} has {pattern!r} in its name", hint=hint)
        matches |= dict.fromkeys(fitting)
    return list(matches)


def short(names: Sequence[str]) -> tuple[str, list[str]]:
    """The counter all names share, if any, and the names without it; never two alike."""
    parts = [match.groups() if (match := PARTS.fullmatch(name)) else ("", name) for name in names]
    if len({counter for _, counter in parts}) > 1 or not all(thing for thing, _ in parts):
        return "", [name.partition("\\\\")[2].partition("\\")[2] or name for name in names]
    things = [match[1] if (match := INSTANCE.fullmatch(thing)) else thing for thing, _ in parts]
    alike = len(set(things)) < len(things)
    return parts[0][1], [thing for thing, _ in parts] if alike else things
