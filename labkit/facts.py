"""What measured and what was measured: versions of labkit, and the facts of a host."""

from __future__ import annotations

import functools
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from labkit import __version__
from labkit.host import Host
from labkit.interrupt import together
from labkit.plan import AT_ONCE
from labkit.results import HOME

# One line a fact; every line is there on any Linux, and whatever is missing there prints nothing.
# Of the kernel's command line only what changes measurements: the rest may be nobody's business.
COMMAND = r"""
BOOT='^(mitigations|isolcpus|nohz|nohz_full|rcu_nocbs|idle|intel_idle|processor|intel_pstate|amd_pstate'
BOOT="$BOOT|transparent_hugepage|hugepages|hugepagesz|numa_balancing|iommu|intel_iommu|amd_iommu|tsc"
BOOT="$BOOT|clocksource|nosmt|maxcpus|irqaffinity|preempt)[.=_]|^nosmt$"
f() { printf '%s=%s\n' "$1" "$2"; }
f kernel "$(uname -sr)"
f machine "$(uname -m)"
f system "$(. /etc/os-release 2>/dev/null && echo "$PRETTY_NAME")"
f boot "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
f cpus "$(getconf _NPROCESSORS_ONLN 2>/dev/null || nproc)"
f cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)"
f microcode "$(sed -n 's/^microcode[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)"
f hypervisor "$(sed -n 's/^flags.* \(hypervisor\).*/yes/p' /proc/cpuinfo 2>/dev/null | head -n 1)"
f memory "$(sed -n 's/^MemTotal: *//p' /proc/meminfo 2>/dev/null)"
f clock "$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource 2>/dev/null)"
f booted_with "$(tr ' ' '\n' 2>/dev/null </proc/cmdline | grep -E "$BOOT" | tr '\n' ' ')"
f governor "$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null)"
f huge_pages "$(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null)"
cd /sys/devices/system/cpu/vulnerabilities 2>/dev/null && for v in *; do
  f "mitigation $v" "$(cat "$v" 2>/dev/null)"; done
cd /sys/class/net 2>/dev/null && for n in *; do
  d=$(readlink "$n/device/driver" 2>/dev/null)
  f "nic $n" "driver=${d##*/} mtu=$(cat "$n/mtu" 2>/dev/null) speed=$(cat "$n/speed" 2>/dev/null)"
done
f now "$(date -u +%s.%N)"
"""


def of_host(host: Host) -> dict[str, str]:
    """The facts of a host now, and how far its clock is from ours (`clock_offset`, in seconds).

    `reached_at` is the address that answered: where a name leads may change between two runs.
    """
    sent = datetime.now(UTC).timestamp()
    facts = parse(host.check("sh", "-c", COMMAND))
    if at := host.transport.reached_at:
        facts["reached_at"] = at
    there, middle = facts.pop("now", ""), (sent + datetime.now(UTC).timestamp()) / 2
    if there.replace(".", "", 1).isdigit():
        bound = datetime.now(UTC).timestamp() - middle
        facts["clock_offset"] = f"{float(there) - middle:+.3f} within {bound:.3f}"
    return facts


def parse(text: str) -> dict[str, str]:
    """The facts that `COMMAND` printed; what a host does not have is left out."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name: value.strip() for name, _, value in pairs if value.strip()}


def of_run(
    hosts: Mapping[str, Host], links: Mapping[str, Mapping[str, str]] | None = None
) -> dict[str, Any]:
    """What a run keeps: our versions, the facts of each host by role, and of each shaped link."""
    of_each = together(of_host, hosts.values(), AT_ONCE)
    found = {"versions": versions(), "hosts": dict(zip(hosts, of_each, strict=True))}
    return found | ({"links": dict(links)} if links else {})


@functools.cache
def versions() -> Mapping[str, str]:
    """labkit with its commit, marked when files differ from it, and what computes beside it."""
    ours = f"{__version__}{_commit()}"
    return {"labkit": ours, "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "scipy", "paramiko")}}  # fmt: skip


def _commit() -> str:
    # An installed package may lie in a checkout of something else.
    if not (HOME / ".git").exists():
        return ""
    asked = ("git", "-C", str(HOME), "describe", "--always", "--dirty", "--exclude", "*")
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return f"+{said.stdout.strip()}"
