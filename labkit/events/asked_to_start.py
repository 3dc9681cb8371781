"""A virtual machine is asked to start, to see whether its hypervisor refuses it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from labkit.errors import ResultsError
from labkit.event import Event, Phase, Say, TimeLine, said
from labkit.lab import Lab
from labkit.machine.scripts import beside
from labkit.setting import Words
from labkit.settings._ways import script
from labkit.settings.esxi import FIND, quoted
from labkit.workload import Sample, Series

PROGRAMS = ("vim-cmd",)

START = FIND + 'vim-cmd vmsvc/power.on "$id" 2>&1'
STOP = FIND + beside(__file__, "asked_to_start_stop.sh")
# As ESXi says it: sched.mem.min is the reservation.
MEMORY = re.compile(r"memory reservation|sched\.mem\.min", re.IGNORECASE)
METRIC = "refused without memory"


@dataclass(frozen=True)
class AskedToStart(Event):
    """`guest`, which is off, is asked to start on `host`; whatever comes of it, it is off again."""

    measures: ClassVar[Mapping[str, str]] = {METRIC: "share"}
    name: ClassVar[str] = "asked_to_start"
    seconds: ClassVar[float] = 30.0
    """A refusal comes at once; a machine that starts is stopped again."""
    guest: str = "guest2"
    host: str = "server"

    def happen(self, lab: Lab, say: Say) -> None:
        """Ask, and keep the answer."""
        answer = lab.host(self.host).run(*self._words(lab, START), seconds=60)
        say(asked=self.guest, code=answer.code, answer=(answer.stdout + answer.stderr).strip())

    def undo(self, lab: Lab) -> None:
        """Have it off, as it was."""
        lab.host(self.host).check(*self._words(lab, STOP), seconds=90)

    def refusal(self, lab: Lab) -> str:
        """The lab has to say which machine it is."""
        if self.guest in lab.host(self.host).guests:
            return ""
        return f"the lab has no {self.guest} with a vm = on {self.host}, which could be refused"

    def _words(self, lab: Lab, text: str) -> Words:
        return script(text, quoted(lab.host(self.host).guests[self.guest].vm))

    @staticmethod
    def time_line(text: str) -> TimeLine:
        """The moment of the answer."""
        at = float(_answer(text)["t"])
        return TimeLine("asked to start", (Phase("answered", at, at),))

    @staticmethod
    def parse(text: str, loads: Mapping[str, Series]) -> list[Sample]:
        """1 if it was refused for want of reserved memory, 0 if it started."""
        answer = _answer(text)
        refused, words = answer["code"] != 0, str(answer["answer"])
        if refused and not MEMORY.search(words):
            raise ResultsError("the start was refused for another reason", said=words)
        return [Sample.single(METRIC, "share", refused)]


def _answer(text: str) -> Mapping[str, str | int | float]:
    lines = [line for line in said(text) if "asked" in line]
    if not lines:
        raise ResultsError("nothing says how the start was answered")
    return lines[-1]
