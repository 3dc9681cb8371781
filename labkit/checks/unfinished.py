"""Is somebody changing the host, or is there a change that nobody has put back?"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.check import FAILED, OK, WARNING, Check, Finding, Subject


def _look(place: Subject) -> Iterator[Finding]:
    greeting, back = place.greeting, place.labkit("restore", place.role)
    trouble = greeting.trouble(place.role)
    if not trouble:
        yield Finding(OK, "nothing is left to put back")
    elif greeting.held:
        yield Finding(WARNING, trouble, fix=f"wait; or, when that is over for sure: {back} --break")
    else:
        yield Finding(FAILED, trouble, fix=back)


check = Check("no change is under way or left over", _look, after="kind")
