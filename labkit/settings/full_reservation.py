"""All that a guest has, kept for it: what latency sensitivity and passed-through devices need."""

from dataclasses import field
from typing import ClassVar

from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Details, Way, Words
from labkit.settings._esxi import EDIT_LINES, FIND, SHOW, edited, lines_of, quoted
from labkit.settings._guest import FIRST, GUEST, RESERVATION, OfGuest
from labkit.settings._values import switch
from labkit.settings._ways import RESTART, script
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic

PROGRAMS = ("esxcli",)

KEYS = ("sched.mem.min", "sched.mem.minSize", "sched.mem.pin", "sched.cpu.min", "sched.cpu.units",
        "sched.cpu.max")  # fmt: skip
SIZES = ("memSize", "numvcpus")
# It is of all that the guest has, so that comes first.
OF_SIZE = ("GuestMemory", "GuestCpuCount")
# What needs it is gone before it goes: ESXi starts no such machine without it.
WITHOUT = (str(ExclusiveCpu(False)), str(GuestNic("bridge")))
FREE = "nothing"
NO_LIMIT = ("", "-1", "unlimited")
# How much that is, the machine's description and the host say: MiB, and MHz for each of its CPUs.
RESERVE_ALL = beside(__file__, "full_reservation_all.sh")
WHOLE_CPU = "whole"
SHOWN_ALL = f"""\
{SHOW}
{RESERVE_ALL}
echo "{WHOLE_CPU} = $mhz"
"""
RESERVED_ALL = f"""\
{FIND}
{RESERVE_ALL}
{beside(__file__, "full_reservation_lines.sh")}
{EDIT_LINES}"""


class FullReservation(OfGuest):
    """All memory of the guest, and all time of its CPUs, kept for it whatever others want."""

    reserved: bool = field(default=True, metadata=switch(FREE, RESERVATION))
    guest: str = field(default=FIRST, metadata=GUEST)
    gaps: ClassVar = {
        "box": "a box has no admission control that checks reservations",
        "kvm": "add <memoryBacking><locked/> to the machine's definition by hand",
    }

    def on_esxi(self, host: Host) -> Way:
        """`sched.mem.*` as large as the machine, `sched.cpu.min` as its CPUs times the host's."""
        vm = self.machine(host)

        def writes(value: str) -> tuple[Words, ...]:
            if value == RESERVATION:
                return (script(RESERVED_ALL, quoted(vm)), self.answers(host, "esxi"))
            pairs = (word.partition("=")[::2] for word in value.split(", "))
            lines = dict.fromkeys(KEYS, "") if value == FREE else dict(pairs)
            return (edited(vm, lines), self.answers(host, "esxi"))

        return Way(
            script(SHOWN_ALL, quoted(vm), *KEYS, *SIZES), writes, _value, needs=RESTART,
            legal="reserved or not",
            more=Details(
                persists=True, settle_seconds=1, seconds=60,
                after=OF_SIZE if self.reserved else WITHOUT,
            ),
        )  # fmt: skip


def _value(text: str) -> str:
    values = lines_of(text)
    state = {key: values.get(key.lower(), "") for key in KEYS}
    exact = ", ".join(f"{key}={content}" for key, content in state.items())
    if "stopped" in values:
        return f"{exact}, and stopped"
    if not any(state.values()):
        return FREE
    memory, mhz = values.get("memsize"), state["sched.cpu.min"]
    has_memory = [memory, memory, "TRUE"] == list(state.values())[:3]
    whole = int(values.get(WHOLE_CPU) or 0)
    has_cpu = state["sched.cpu.units"] == "mhz" and mhz.isdigit() and int(mhz) >= whole > 0
    if has_memory and has_cpu and state["sched.cpu.max"] in NO_LIMIT:
        return RESERVATION
    return exact
