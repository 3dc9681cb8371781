"""The limits of a host's sleep: power policy, idle states, turbo, hardware threads, online CPUs."""

from dataclasses import replace
from typing import ClassVar

from labkit.host import Host
from labkit.machine.cpus import cpus_of
from labkit.machine.scripts import beside
from labkit.setting import Setting, Way, Words
from labkit.settings._fields import amount, cpu_set, word
from labkit.settings._ways import (
    OWN_KERNEL,
    ROOT,
    WRITE_EACH,
    OnHost,
    alike,
    by,
    in_words,
    of_machine,
    on_or_off,
    script,
)
from labkit.settings.esxi import of_advanced, of_kernel

CPUS = "/sys/devices/system/cpu"
ALL_STATES = "all states"
# High performance, balanced, low power: a governor of Linux, a policy of ESXi.
POLICIES = {
    "performance": ("performance", "High Performance"),
    "balanced": ("schedutil", "Balanced"),
    "saving": ("powersave", "Low Power"),
    "custom": ("", "Custom"),
}
GOVERNORS = """\
cd /sys/devices/system/cpu/cpufreq && for one in policy*/scaling_governor; do
    [ -e "$one" ] || { echo "this kernel sets no CPU frequency" >&2; exit 1; }
    echo "$PWD/$one=$(cat "$one")"; done"""
EACH_GOVERNED = """\
for one in /sys/devices/system/cpu/cpufreq/policy*/scaling_governor; do
    printf %s "$1" | tee "$one" >/dev/null || exit; done"""
# One line for each idle state of each CPU: its switch with 1 for off, and the us to wake.
STATES = """\
cd /sys/devices/system/cpu && for one in cpu[0-9]*/cpuidle/state*/disable; do
    [ -e "$one" ] || { echo "this kernel has no idle states" >&2; exit 1; }
    echo "$PWD/$one=$(cat "$one") $(cat "${one%/*}/latency")"; done"""
AWAKE = """\
for one in /sys/devices/system/cpu/cpu[0-9]*/cpuidle/state*/disable; do
    off=0; [ "$(cat "${one%/*}/latency")" -le "$1" ] || off=1
    printf %s "$off" | tee "$one" >/dev/null || exit; done"""
TURBO = beside(__file__, "power_turbo.sh")
TURN = """\
cd /sys/devices/system/cpu && if [ -e intel_pstate/no_turbo ]; then
    printf %s "$((1 - $1))" | tee intel_pstate/no_turbo >/dev/null
else printf %s "$1" | tee cpufreq/boost >/dev/null; fi"""
PLUG = beside(__file__, "power_plugged.sh")


class PowerPolicy(OnHost):
    """`performance`, `balanced`, `saving`, or on ESXi `custom`, which IdleStates needs there.

    On Linux these are the governors performance, schedutil and powersave, of all CPUs.
    """

    policy: str = word("power policy", tuple(POLICIES), default="performance")

    def on_linux(self, host: Host) -> Way:
        """The governor of each CPU's frequency."""
        return Way(
            script(GOVERNORS), _govern, _policy_of,
            lambda text: "there is no such governor on Linux" if self.policy == "custom" else "",
            needs=ROOT, legal="performance, balanced or saving", probe=script(OWN_KERNEL),
        )  # fmt: skip

    def on_esxi(self, host: Host) -> Way:
        """The option /Power/CpuPolicy, at once."""
        names = {esxi: policy for policy, (_, esxi) in POLICIES.items()}
        return in_words(of_advanced("/Power/CpuPolicy", text=True), names)


def _policy_of(text: str) -> str:
    governor = alike(text)
    return next((name for name, (owner, _) in POLICIES.items() if owner == governor), governor)


def _govern(value: str) -> tuple[Words, ...]:
    if "=" in value:
        return (script(WRITE_EACH, *value.split()),)
    return (script(EACH_GOVERNED, POLICIES.get(value, (value, ""))[0]),)


class IdleStates(OnHost):
    """The deepest sleep of idle CPUs: states that take longer to wake from are not entered.

    0 microseconds keeps all CPUs awake, which costs power, and turbo of their neighbours.
    """

    most_usecs: int = amount("the time to wake", 0, 1_000_000, "us", "{} us".format, default=0)

    def on_linux(self, host: Host) -> Way:
        """The switch of each state of each CPU."""
        return Way(
            script(STATES), lambda value: (_write_states(value),), self._read_states,
            needs=ROOT, probe=script(OWN_KERNEL),
        )  # fmt: skip

    def on_esxi(self, host: Host) -> Way:
        """The option /Power/CStateMaxLatency, which counts only with the policy `custom`."""
        way = of_advanced("/Power/CStateMaxLatency")
        return replace(
            way, value=lambda text: f"{text.strip()} us",
            writes=lambda value: way.writes(value.removesuffix(" us")), after=("PowerPolicy",),
        )  # fmt: skip

    def _read_states(self, text: str) -> str:
        rows = [line.split() for line in text.splitlines()]
        if all((int(latency) > self.most_usecs) == state.endswith("=1") for state, latency in rows):
            return self.wanted
        if all(state.endswith("=0") for state, _ in rows):
            return ALL_STATES
        return " ".join(state for state, _ in rows)


def _write_states(value: str) -> Words:
    if value == ALL_STATES:
        return script(AWAKE, str(2**31 - 1))
    if value.endswith(" us"):
        return script(AWAKE, value.removesuffix(" us"))
    return script(WRITE_EACH, *value.split())


class Turbo(OnHost):
    """Whether CPUs may go above their nominal frequency while there is room."""

    turbo: bool = False
    gaps: ClassVar = {"esxi": "turbo is the BIOS's there; state it with the results"}

    # The switch of intel_pstate, or that of the other drivers.
    on_linux = by(Way(
        script(TURBO), lambda value: (script(TURN, "1" if value == "on" else "0"),),
        lambda text: on_or_off(text.split() in (["no_turbo", "0"], ["boost", "1"])),
        needs=ROOT, probe=script(OWN_KERNEL),
    ))  # fmt: skip


class HyperThreading(OnHost):
    """Whether a core offers its hardware threads as CPUs of their own."""

    threads: bool = False

    def on_linux(self, host: Host) -> Way:
        """At once, by taking CPUs away; `forceoff` and `notsupported` are beyond our reach."""
        states = ("forceoff", "notsupported", "notimplemented")
        return replace(
            of_machine(f"{CPUS}/smt/control"),
            refuses=lambda text: f"hardware threads of {host.name}: {text.strip()}"
            if text.strip() in states else "",
            seconds=2,
        )  # fmt: skip

    # The name is not confirmed on a real host.
    on_esxi = by(of_kernel("hyperthreading"))


class OnlineCpus(OnHost):
    """The only CPUs that the host's kernel uses, as for a native run on as many as a guest has.

    It moves every process and interrupt off the others; old cpusets do not get them back.
    """

    cpus: str = cpu_set()
    gaps: ClassVar = {"esxi": "a native run starts another system there"}

    def clash(self, setting: Setting) -> str:
        """Nothing can be placed on a CPU that is taken away."""
        cpus = getattr(setting, "cpus", "")
        missing = set(cpus_of(cpus)) - set(cpus_of(self.cpus)) if isinstance(cpus, str) else set()
        return f"CPU {min(missing)} is taken away" if missing and setting is not self else ""

    def on_linux(self, host: Host) -> Way:
        """Not every machine can do without its first CPU."""
        return Way(
            ("cat", f"{CPUS}/online"),
            lambda value: (script(PLUG, *map(str, cpus_of(value))),),
            needs=ROOT, probe=script(OWN_KERNEL), seconds=1,
        )  # fmt: skip
