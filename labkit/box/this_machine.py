"""The abilities of this machine, the missing ones, and the one command that brings them."""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from labkit.box import needs
from labkit.box.cgroup import hierarchy
from labkit.box.containers import container
from labkit.box.guests import kvm
from labkit.box.needs import CHECKOUT, TUN
from labkit.box.rootless import sudo, user_namespace
from labkit.machine.places import HOME
from labkit.programs.packages import (
    absent,
    comes_later,
    declared_under,
    install_words,
    names_of,
    system_of,
)

PROGRAMS = ("sudo", "systemd-detect-virt", "unshare")

SET_UP = "make system"
DEMO = "make demo" if CHECKOUT else "labkit demo"
TIERS = {
    "root": "everything: the lab in a box runs here",
    "rootless": "the lab in a box, all of it in a user namespace of yours",
    "recorded": "recorded runs, and hosts of your own by their lab.toml; no lab in a box",
}
READY = {"root": ", any lab in a box", "rootless": ", a lab in a box", "recorded": ""}
LACKS = {
    "root": "",
    "rootless": "beside root: containers (they take control groups), live migration,"
    " settings of the machine itself. Also a guest's CPU of its own (real-time"
    " priority), unless a limit of yours allows it",
    "recorded": "beside rootless: any host on this machine",
}
"""The abilities that a tier lacks and the next better one has."""
SPARE = {"docker", "kvm"}
"""The abilities that no tier hangs on."""
DOCKER = "containers by the engine that most people use, one daemon on each host of the box"
NO_PACKAGE = "Debian packages it, {system} does not: use Debian"
FAST, NESTING = "guests at the speed of hardware", "nested virtualization, on in the hypervisor"
WORKLOADS = Path(__file__).parents[1] / "workloads"


@dataclass(frozen=True)
class Ability:
    """One thing looked at: what was found, what it brings, and how to get it (`fix`)."""

    name: str
    ok: bool
    found: str
    brings: str
    fix: str = ""


@dataclass(frozen=True)
class Report:
    """`tier` is one of `TIERS`, `lacks` is of `LACKS`; `next` is the one command to type now."""

    tier: str
    means: str
    lacks: str
    next: str
    machine: Mapping[str, str | int]
    checks: tuple[Ability, ...]


def examine() -> Report:
    """Look at this machine; nothing is changed, and nothing stays running."""
    docker = needs.Need(container.DOCKER, container.PACKAGES["docker"], DOCKER)
    programs = [_program_check(name, need) for name, need in needs.NEEDS.items()]
    checks = (_python_check(), *programs, _program_check("docker", docker, set_up=""),
              *_kvm_check(), *_kernel_checks(), _rootless_check())  # fmt: skip
    tier = _tier(checks)
    return Report(tier, TIERS[tier], LACKS[tier], _next(checks, tier), _machine(), checks)


def _tier(checks: Iterable[Ability]) -> str:
    lesser = {name for name, need in needs.NEEDS.items() if not need.required}
    wrong = {check.name for check in checks if not check.ok} - lesser - SPARE
    for tier, alternative in (("root", user_namespace.TIER), (user_namespace.TIER, "root")):
        if not wrong - {alternative}:
            return tier
    return "recorded"


def packages() -> list[str]:
    """Packages that the lab in a box and its studies need and that are missing here.

    Large ones of few studies are left to `labkit prepare`.
    """
    box = [program for need in needs.missing().values() for program in need.absent]
    loads = absent(word for word in declared_under([WORKLOADS]) if not comes_later(word))
    return names_of([*box, *loads], system_of(_os_release()) or "debian", free=True)


def render(report: Report) -> str:
    """The report for a terminal: the tier first, and what to do next."""
    checks: list[tuple[str, str]] = []
    for check in report.checks:
        checks.append(("ok" if check.ok else "--", f"{check.name:<12}{check.found}"))
        if not check.ok:
            checks.append(("", f"{'':<12}it brings {check.brings}"))
            checks.append(("", f"{'':<12}to get it: {check.fix}"))
    head = [("tier", f"{report.tier}: {report.means}"), ("next", report.next)]
    head += [("lacks", report.lacks)] if report.lacks else []
    machine = ((name.replace("_mib", " (MiB)"), value) for name, value in report.machine.items())
    return "\n\n".join([_align(head), _align(machine), _align(checks, 4)])


def ready(report: Report) -> str:
    """A line about what can be done here, and the first thing that brings more."""
    lacks = [f"{check.fix} ({check.brings})" for check in report.checks if not check.ok]
    addition = lacks[0] if report.next == DEMO and lacks else report.next if lacks else ""
    more = f"; to do more: {addition}" if addition else ""
    return f"ready: recorded runs, hosts of your own{READY[report.tier]}{more}"


def _align(rows: Iterable[tuple[str, object]], width: int = 16) -> str:
    return "\n".join(f"{name:<{width}}{value}".rstrip() for name, value in rows)


# The first thing that is wrong decides: what comes after it may be right once it is.
def _next(checks: Iterable[Ability], tier: str) -> str:
    spare = SPARE | {user_namespace.TIER} | ({"root"} if tier == user_namespace.TIER else set())
    wrong = [check for check in checks if not check.ok and check.name not in spare]
    named = [check.fix for check in wrong if check.name != "root"] + [c.fix for c in wrong]
    return named[0] if named else DEMO


# --- checks ---------------------------------------------------------------------------------


def _python_check() -> Ability:
    absent = [name for name in _dependencies() if not _is_installed(name)]
    text = f"missing {', '.join(absent)}" if absent else f"Python {platform.python_version()}"
    lacking = ["-e", str(HOME)] if CHECKOUT else absent
    fix = shlex.join([sys.executable, "-m", "pip", "install", *lacking])
    return Ability("python", not absent, text, "all that labkit imports", fix if absent else "")


def _dependencies() -> list[str]:
    if not _is_installed("labkit"):
        return ["labkit"]
    words = [word for word in metadata.requires("labkit") or [] if "extra ==" not in word]
    return [re.split(r"[^\w.-]", word)[0] for word in words]


def _is_installed(name: str) -> bool:
    with suppress(metadata.PackageNotFoundError):
        return bool(metadata.version(name))
    return False


# Unlike apt-get by itself, make starts no SSH server for all the world.
def _program_check(
    name: str, need: needs.Need, set_up: str = SET_UP if CHECKOUT else ""
) -> Ability:
    if not need.absent:
        return Ability(name, True, ", ".join(need.programs), need.brings)
    system, missing = system_of(_os_release()), f"missing {', '.join(need.absent)}"
    names = names_of(need.absent, system) if system else []
    if not system or not shutil.which(install_words(system)[0], path=needs.SEARCH_PATH):
        fix = f"install {' '.join(need.absent)} (Debian's package {need.package})"
    elif not names:
        fix = NO_PACKAGE.format(system=_os_release().get("NAME", system))
    else:
        fix = set_up or shlex.join(["sudo", *install_words(system), *names])
    return Ability(name, False, missing, need.brings, fix)


# That its device opens says nothing about guests: many clouds have one that boots none.
def _kvm_check() -> list[Ability]:
    if not kvm.DEVICE.exists():
        return []
    works, text, remedy = kvm.state()
    return [Ability("kvm", works is not False, text, FAST, remedy or NESTING)]


# Who has root needs no other way to a box.
def _rootless_check() -> Ability:
    brings = "the lab in a box without root, in a user namespace"
    if needs.is_root() or sudo.works():
        return Ability("rootless", True, "not needed where root is", brings)
    reason, remedy = user_namespace.lacking()
    return Ability(
        "rootless", not reason, reason or "user namespaces with a range of users", brings, remedy
    )


def _kernel_checks() -> list[Ability]:
    privilege = "network namespaces and links of our own"
    if sudo.works():
        return [Ability("root", True, f"user {os.geteuid()}, who may use sudo", privilege)]
    if not needs.is_root():
        remedy = f"sudo -v && {DEMO}" if shutil.which("sudo") else f"as root: {DEMO}"
        return [Ability("root", False, f"user {os.geteuid()}, not root", privilege, remedy)]
    refusal, groups = _namespaces_refused(), hierarchy()
    writable = groups is not None and os.access(groups, os.W_OK)
    inside = "in a container, start it privileged"
    return [
        Ability("root", True, "running as root", privilege),
        Ability("isolation", not refusal, refusal or "namespaces can be made",
              "hosts of their own on this machine", inside if refusal else ""),
        Ability("groups", writable, str(groups) if writable else "no control groups to write to",
              "a box that can be ended for certain", "" if writable else inside),
        Ability("tun", TUN.exists(), str(TUN) if TUN.exists() else f"no {TUN}",
              "network cards for guests", "" if TUN.exists() else "modprobe tun"),
    ]  # fmt: skip


# Only a try shows it: containers often run as root and yet may not. What it makes ends with it.
def _namespaces_refused() -> str:
    words = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "true"]
    try:
        result = subprocess.run(words, capture_output=True, text=True, timeout=2)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unshare: {error}"
    return result.stderr.strip() if result.returncode else ""


# --- the machine ----------------------------------------------------------------------------


def _machine() -> dict[str, str | int]:
    return {
        "system": _os_release().get("PRETTY_NAME", platform.system()),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _line("/proc/cpuinfo", r"^model name\s*: (.*)") or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mib": int(_line("/proc/meminfo", r"^MemTotal:\s*(\d+)") or 0) // 1024,
        "python": f"{platform.python_version()} ({sys.executable})",
        "virtualization": _virtualization(),
        "kvm": kvm.state()[1],
    }


def _os_release() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _virtualization() -> str:
    with suppress(OSError, subprocess.TimeoutExpired):
        result = subprocess.run(["systemd-detect-virt"], capture_output=True, text=True, timeout=2)
        return result.stdout.strip() or "unknown"
    guest = _line("/proc/cpuinfo", r"^flags\s*:.*\b(hypervisor)\b")
    return "a virtual machine" if guest else "none seen"


def _line(path: str, pattern: str) -> str:
    with suppress(OSError):
        match = re.search(pattern, Path(path).read_text("utf-8", "replace"), re.MULTILINE)
        return match[1].strip() if match else ""
    return ""
