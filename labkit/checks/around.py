"""Does the machine under a box do something else?"""

import time
from collections.abc import Iterator

from labkit.box.status import processes
from labkit.check import OK, WARNING, Check, Finding, Subject
from labkit.gates import around

APART = 1.0
"""Seconds between two looks at the machine."""


def _look(place: Subject) -> Iterator[Finding]:
    if not place.lab.emulated:
        return
    before = around.look(processes(place.lab.name))
    time.sleep(APART)
    work = around.between(before, around.look(processes(place.lab.name)))
    if work is None:
        yield Finding(WARNING, "its load cannot be read", fix="top -b -n 1", where=around.ROLE)
    elif work.much:
        fix = "top -b -n 1 | head -n 15   # and end what is busy"
        yield Finding(WARNING, work.gate.why, fix=fix, where=around.ROLE)
    else:
        yield Finding(OK, work.gate.why, where=around.ROLE)


check = Check("nothing else is busy on the machine of the box", _look, "kind", about="lab")
