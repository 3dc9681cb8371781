"""What an ESXi host needs before it measures: release, power policy, devices for guests."""

import re
from collections.abc import Iterator

from labkit.check import OK, WARNING, Check, Finding, Subject

PROGRAMS = ("esxcli", "vim-cmd")

POLICY = ("esxcli", "system", "settings", "advanced", "list", "-o", "/Power/CpuPolicy")
BEST = "High Performance"


def _look(place: Subject) -> Iterator[Finding]:
    policy = place.host.run(*POLICY, seconds=20)
    match = re.search(r"^ *String Value: *(.*)$", policy.stdout, re.MULTILINE)
    if not match:
        yield Finding(WARNING, "its power policy cannot be read", policy.stderr or policy.stdout,
                      " ".join(POLICY))  # fmt: skip
    elif match[1].strip() != BEST:
        yield Finding(
            WARNING, f"power policy {match[1].strip()}: CPUs change their clock and sleep",
            fix=f"esxcli system settings advanced set -o /Power/CpuPolicy -s '{BEST}'",
        )  # fmt: skip
    else:
        yield Finding(OK, f"power policy {BEST}")
    yield from _guest(place)


def _guest(place: Subject) -> Iterator[Finding]:
    result = place.host.run("vim-cmd", "vmsvc/getallvms", seconds=20)
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    names = [row[1] for row in rows if len(row) > 1 and row[0].isdigit()]
    if names:
        yield Finding(OK, f"virtual machines: {', '.join(names)}")
    else:
        yield Finding(WARNING, "no virtual machine", result.stderr, "vim-cmd vmsvc/getallvms")


check = Check("the ESXi host is ready", _look, after="kind", kinds=("esxi",))
