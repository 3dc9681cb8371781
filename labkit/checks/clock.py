"""How far is the host's clock from ours?"""

from collections.abc import Iterator

from labkit.check import COMMAND_SECONDS, OK, WARNING, Check, Finding, Subject
from labkit.fleet import clock
from labkit.programs.packages import brings

PROGRAMS = ("chronyc",)

FAR = 1.0
"""Seconds; times of runs on several hosts could no longer be put in order by eye."""


def _look(place: Subject) -> Iterator[Finding]:
    def ask() -> str:
        return place.host.check("date", "+%s.%N", seconds=COMMAND_SECONDS)

    read = clock.reading(place.role, ask)
    text = f"{read.offset:+.3f} s from this machine's, within {read.bound:.3f} s"
    if abs(read.offset) - read.bound <= FAR:
        yield Finding(OK, text)
        return
    service = "ntp" if "esxi" in place.greeting.kinds else "chrony"
    fix = "esxcli system ntp set -e true -s pool.ntp.org" if service == "ntp" else (
        f"{brings('chronyc')} && chronyc makestep"
    )  # fmt: skip
    yield Finding(WARNING, text, fix=fix)


check = Check("clocks agree", _look, after="kind")
