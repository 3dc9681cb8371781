"""The host CPUs that a virtual machine runs on, whether it shares cores, and how much it gets."""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.machine.cpus import cpus_of
from labkit.machine.scripts import beside
from labkit.setting import Way, Words
from labkit.settings._fields import CPU_SHARES, amount, cpu_list, cpu_set, share, word
from labkit.settings._guest import VIRSH, OfMachine, numbers, of_lines, of_option, of_virsh
from labkit.settings._ways import CPUS, ROOT, alike, picked, script
from labkit.settings.esxi import of_vmx

PROGRAMS = ("awk", "virsh")

NO_LIMIT = "unlimited"
WHOLE_CPUS = "its guests share the CPUs of their host alike; ExclusiveCpu gives one its own"
PINS = beside(__file__, "guest_cpu_pinned.sh")

PLACEMENTS = ("cores", "threads")
CHOICES = beside(__file__, "guest_cpu_cores.sh")
CHOOSE = f"""\
{CPUS}all=$(host_cpus)
choose "$all"
"""
SHOW = 'printf "%s\\n" "$now" "$cores" "$threads"'
NO_CHOICE = "the machine shows no hyper-threads, or too few cores for the guest"


class GuestCpus(OfMachine):
    """The CPUs of the host on which a guest's own CPUs run; not exclusive by itself."""

    cpus: str = cpu_set()
    gaps: ClassVar = {"box": "ExclusiveCpu moves the guest of the box"}

    def on_kvm(self, host: Host) -> Way:
        """`vcpupin`, each of them to the whole list."""
        return Way(
            picked(r"s/^ *\([0-9][0-9]*\)  */\1=/p", *VIRSH, "vcpupin", self.vm),
            lambda value: (script(PINS, self.vm, *value.split()),), alike,
            needs=ROOT, seconds=0.5,
        )  # fmt: skip

    def on_esxi(self, host: Host) -> Way:
        """`sched.cpu.affinity`: at least as many as the guest has; takes it out of DRS."""
        numbers = ",".join(map(str, cpus_of(self.cpus)))
        return of_vmx(self.vm, self.wanted, {"sched.cpu.affinity": numbers})


class EmulatorCpus(OfMachine):
    """The CPUs on which the threads run that emulate a guest's devices, not its own CPUs."""

    cpus: str = cpu_set()
    gaps: ClassVar = {
        "box": "they run where the guest does: ExclusiveCpu",
        "esxi": "VMkernel places those worlds itself",
    }
    on_kvm = of_option("s/^ *[*]: //;/^[0-9]/p", "emulatorpin", "{}", "--live")


class GuestCpuShares(OfMachine):
    """A guest's part of a CPU that others want too; 1024 is one like all others on KVM.

    ESXi counts per CPU of the guest, and calls 1000 normal.
    """

    shares: int = amount("CPU shares", *CPU_SHARES)
    gaps: ClassVar = {"box": WHOLE_CPUS}
    # The control group of the machine: what is too much is cut to fit.
    on_kvm = of_option("s/^cpu_shares *: //p", "schedinfo", "--live", "cpu_shares={}")
    on_esxi = of_lines("sched.cpu.shares")


class GuestCpuLimit(OfMachine):
    """The most that each of a guest's CPUs may run, in percent of a CPU of the host."""

    percent: float = share("the limit", 1, 100, "percent", "{:g} %".format)
    gaps: ClassVar = {
        "box": WHOLE_CPUS,
        "esxi": "it counts MHz: GuestCpuReservation with limit_mhz",
    }

    def on_kvm(self, host: Host) -> Way:
        """`schedinfo`: the quota of each period of 100 ms."""
        way = of_virsh(
            "s/^vcpu_period *: /period=/p;s/^vcpu_quota *: /quota=/p", ("schedinfo", self.vm),
            lambda value: ("schedinfo", self.vm, "--live", *_quota(value)),
        )  # fmt: skip
        return replace(way, value=_percent)


class GuestCpuReservation(OfMachine):
    """CPU time that a guest has for certain, and the most that it gets, in MHz; 0: no limit."""

    mhz: int = amount("the reservation", 0, 10_000_000, "MHz")
    limit_mhz: int = amount("the limit", 0, 10_000_000, "MHz", default=0)
    gaps: ClassVar = {
        "box": WHOLE_CPUS,
        "kvm": "Linux reserves no CPU time; GuestCpus on CPUs that nobody else uses does",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0 < self.limit_mhz < self.mhz:
            raise BadInput(f"{self.vm} may not have less than is reserved for it")

    @property
    def wanted(self) -> str:
        """Both in MHz."""
        return f"{self.mhz} to {self.limit_mhz or NO_LIMIT} MHz"

    def on_esxi(self, host: Host) -> Way:
        """Refused at power-on when the host does not have that much left."""
        limit = str(self.limit_mhz) if self.limit_mhz else None
        lines = {"sched.cpu.min": str(self.mhz), "sched.cpu.units": "mhz", "sched.cpu.max": limit}
        return of_vmx(self.vm, self.wanted, lines)


# --- between the tools' words and ours --------------------------------------------------------


def _percent(text: str) -> str:
    found = numbers(text)
    if found["quota"] <= 0:
        return f"{NO_LIMIT} of {found['period']} us"
    if found["period"] == 100_000:
        return f"{found['quota'] / 1000:g} %"
    return f"{found['quota']} of {found['period']} us"


def _quota(value: str) -> tuple[str, str]:
    if value.endswith(" %"):
        quota, period = f"{float(value[:-2]) * 1000:.0f}", "100000"
    else:
        quota, _, period = value.removesuffix(" us").partition(" of ")
    return f"vcpu_period={period}", f"vcpu_quota={quota.replace(NO_LIMIT, '-1')}"


class GuestCores(OfMachine):
    """Each CPU of a guest on a core of its own, or two on the hyper-threads of each core.

    The host says which of its CPUs are threads of one core. ESXi numbers them one after the other;
    there `cpus` is how many the guest has.
    """

    each: str = word("kind of CPUs", PLACEMENTS, default="cores")
    cpus: int = amount("CPUs of a guest", 2, 768, default=8, which=None)

    def on_box(self, host: Host) -> Way:
        """All threads of the guest, by its command `guest`."""
        return _way(
            self.vm, beside(__file__, "guest_cpu_of_box.sh"), 'guest "@$1" set "cpus=$wanted"',
            lambda value: ("guest", f"@{self.vm}", "set", f"cpus={value}"),
        )  # fmt: skip

    def on_kvm(self, host: Host) -> Way:
        """`vcpupin`, each of the guest's CPUs to all that are chosen."""
        return _way(
            self.vm, beside(__file__, "guest_cpu_of_libvirt.sh"),
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
        _read_cores,
        lambda text: "" if all(text.split("\n")[1:3]) else NO_CHOICE,
        needs=ROOT, legal="cores or threads",
    )  # fmt: skip


def _read_cores(text: str) -> str:
    placement, *choices = text.split("\n")[:3]
    cpus = alike(placement)
    words = {
        cpu_list(chosen_cpus): kind
        for chosen_cpus, kind in zip(choices, PLACEMENTS, strict=True)
        if chosen_cpus
    }
    return words.get(cpus, cpus)
