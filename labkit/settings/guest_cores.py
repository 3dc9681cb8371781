"""Whether the CPUs of a guest run on cores of their own, or share cores as hyper-threads do."""

from collections.abc import Callable
from dataclasses import field

from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way, Words
from labkit.settings._esxi import of_vmx
from labkit.settings._machine import OfMachine
from labkit.settings._values import amount, word
from labkit.settings._ways import CPUS, ROOT, cpu_list, script
from labkit.settings.guest_cpu import PINS, same

PROGRAMS = ("awk", "virsh")

PLACEMENTS = ("cores", "threads")
CHOICES = beside(__file__, "guest_cores_chosen.sh")
CHOOSE = f"""\
{CPUS}all=$(host_cpus)
choose "$all"
"""
SHOW = 'printf "%s\\n" "$now" "$cores" "$threads"'
NO_CHOICE = "the machine shows no hyper-threads, or too few cores for the guest"


class GuestCores(OfMachine):
    """Each CPU of a guest on a core of its own, or two on the hyper-threads of each core.

    The host says which of its CPUs are threads of one core. ESXi numbers them one after the other;
    there `cpus` is how many the guest has.
    """

    each: str = field(default="cores", metadata=word("kind of CPUs", PLACEMENTS))
    cpus: int = field(default=8, metadata=amount("CPUs of a guest", 2, 768))

    @property
    def wanted(self) -> str:
        """`cores` or `threads`."""
        return self.each

    def on_box(self, host: Host) -> Way:
        """All threads of the guest, by its command `guest`."""
        return _way(
            self.vm, beside(__file__, "guest_cores_box.sh"), 'guest "@$1" set "cpus=$wanted"',
            lambda value: ("guest", f"@{self.vm}", "set", f"cpus={value}"),
        )  # fmt: skip

    def on_kvm(self, host: Host) -> Way:
        """`vcpupin`, each of the guest's CPUs to all that are chosen."""
        return _way(
            self.vm, beside(__file__, "guest_cores_libvirt.sh"),
            'sh -c "$3" labkit "$1" "$wanted"',
            lambda value: script(PINS, self.vm, *value.split()),
        )  # fmt: skip

    def on_esxi(self, host: Host) -> Way:
        """`sched.cpu.affinity`; takes the guest out of DRS."""
        step = 2 if self.each == "cores" else 1
        numbers = ",".join(str(cpu) for cpu in range(0, step * self.cpus, step))
        return of_vmx(self.vm, self.wanted, {"sched.cpu.affinity": numbers})


def _way(vm: str, looks: str, makes: str, back: Callable[[str], Words]) -> Way:
    asks = f"{CHOICES}{looks}{CHOOSE}"
    change = f'{asks}[ "$2" = cores ] && wanted=$cores || wanted=$threads\n{makes}'
    return Way(
        script(asks + SHOW, vm),
        lambda value: (script(change, vm, value, PINS) if value in PLACEMENTS else back(value),),
        _value,
        lambda text: "" if all(text.split("\n")[1:3]) else NO_CHOICE,
        needs=ROOT, legal="cores or threads",
    )  # fmt: skip


def _value(text: str) -> str:
    placement, *choices = text.split("\n")[:3]
    cpus = same(placement)
    words = {
        cpu_list(chosen_cpus): kind
        for chosen_cpus, kind in zip(choices, PLACEMENTS, strict=True)
        if chosen_cpus
    }
    return words.get(cpus, cpus)
