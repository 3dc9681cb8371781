"""Programs of the workloads and settings that a host needs, by what it does in a study."""

import re
from collections.abc import Iterator

from labkit.check import FAILURE, OK, WARNING, Finding, Subject, check
from labkit.machine.scripts import beside
from labkit.programs.packages import brings, os_release, package_of, system_of

PROGRAMS = ("ip", "netperf", "ping")

BOTH_ENDS, ASKS, ANSWERS = "both", "asks", "answers"
# Program: which end of a study needs it.
TOOLS = {
    **dict.fromkeys(("ping", "netperf"), ASKS),
    **dict.fromkeys(("ip", "tc", "ethtool", "taskset", "chrt", "sockperf", "iperf3"), BOTH_ENDS),
    "netserver": ANSWERS,
}
MUSTS = {"ping", "ip"}
# Free tools of this list do their tests where they are missing.
NOT_FREE = {tool for tool in TOOLS if package_of(tool).source}
SHOW = beside(__file__, "tools_shown.sh")
# The paper's load, for two packets to the host itself: what counts is whether ping can do it.
PING = ("ping", "-n", "-D", "-s", "256", "-i", "0.001", "-c", "2", "127.0.0.1")


@check("the programs of workloads and settings are there", after="kind", kinds=("linux",))
def tools(place: Subject) -> Iterator[Finding]:
    """Are the programs of the workloads and settings there, by what each host does in a study?"""
    asks = place.role == "client"
    words = [t for t, end in TOOLS.items() if end in (BOTH_ENDS, ASKS if asks else ANSWERS)]
    lines = place.shown(SHOW, *words).splitlines()
    absent = [line[1:] for line in lines if line.startswith("-") and line[1:] not in NOT_FREE]
    versions = [_version(line[1:]) for line in lines if line.startswith("+")]
    system = next((line[1:] for line in lines if line.startswith("=")), "")
    if absent:
        worst = FAILURE if MUSTS & set(absent) else WARNING
        text = f"missing {', '.join(absent)}; workloads and settings with them cannot run"
        yield Finding(worst, text, fix=_install(system, absent))
    yield Finding(OK, ", ".join(versions) or "none")
    if asks and "ping" not in absent:
        yield from _pings(place)


def _pings(place: Subject) -> Iterator[Finding]:
    result = place.host.run(*PING, seconds=5)
    if not result.ok:
        yield Finding(
            FAILURE, "its ping cannot send a request each millisecond (-i) and print the time (-D)",
            result.stderr or result.stdout, f"iputils' ping, as root: {brings('ping')}",
        )  # fmt: skip


def _version(line: str) -> str:
    tool, _, text = line.partition(" ")
    match = re.search(r"\d+(\.\d+)+[\w.-]*|\b\d{6,8}\b", text)
    return f"{tool} {match[0]}" if match else tool


def _install(text: str, absent: list[str]) -> str:
    system = system_of(os_release(text))
    command = brings(*absent, system=system)
    return command if system else f"install {', '.join(absent)} (on Debian: {command})"
