"""Ways on KVM: libvirt's `virsh`."""

from collections.abc import Callable

from labkit.machine.scripts import beside
from labkit.setting import Details, Way, Words
from labkit.settings._ways import PICK, RESTART, ROOT, picked, script

PROGRAMS = ("virsh",)

# What virsh shows of a machine that is defined, running or not.
QUIET = "-q"
# What the definition says; a machine that we stopped and have not started again is part of it.
DEFINITION = (
    PICK
    + """ || exit
[ ! -e "/run/labkit-ran-$vm" ] || echo stopped"""
)
# A machine that runs is shut down by its own system, never by pulling the plug.
RESTART_SCRIPT = beside(__file__, "_libvirt_restarted.sh")
# `pins VM` shows a line of the CPUs of a machine and one of its emulator's; `pin VM N CPUS...` sets
# those of N CPUs and of the emulator; `each_cpu` writes a list such as 0-3 as lines.
PINNED_TO = beside(__file__, "_libvirt_pins.sh")


def of_virsh(program: str, shows: Words, writes: Callable[[str], tuple[Words, ...]]) -> Way:
    """Way to a line of virsh's output about a running machine, in force until it stops."""
    return Way(
        picked(program, "virsh", QUIET, *shows), writes, needs=ROOT, more=Details(seconds=0.5)
    )


def virsh(*words: str) -> Words:
    """One virsh command."""
    return ("virsh", QUIET, *words)


def of_definition(program: str, shows: Words, vm: str, writes: Callable[[str], list[str]]) -> Way:
    """Way to what a machine has at its next start; one that runs is shut down and started again."""
    return Way(
        script(f"vm=$1; shift; {DEFINITION}", vm, program, "virsh", QUIET, *shows),
        lambda value: (script(RESTART_SCRIPT, vm, *writes(value)),),
        needs=RESTART,
        more=Details(persists=True, seconds=60),
    )  # fmt: skip


def numbers(text: str) -> dict[str, int]:
    """Words such as max=65536, by their names."""
    return {key: int(n) for key, _, n in (word.partition("=") for word in text.split())}
