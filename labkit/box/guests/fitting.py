"""Whether a guest can run on the host that it is to move to: asked before anything is begun."""

import os
import re

from labkit.box.guests.move import Move
from labkit.errors import BadInput
from labkit.host import Host

PROGRAMS = ("perl", "setpriv")

AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)
SIZE = re.compile(r"(\d+)([MG])", re.ASCII)
MEBIBYTES = {"M": 1, "G": 1024}
PTRACE = "+sys_ptrace"
# userfaultfd(2) with O_CLOEXEC and O_NONBLOCK, as QEMU 7.2 asks for it; the numbers are Linux's.
FAULTS = 'syscall($ARGV[0], 02004000) >= 0 or print("$!") && exit 1'
NUMBERS = {"x86_64": "323", "aarch64": "282"}


def check(move: Move) -> None:
    """Refuse a move that has no room there, or that no kernel allows."""
    _has_room(move)
    if move.how.may_post_copy and (reason := no_faults(move.to, move.now.uid(move.guest), PTRACE)):
        raise BadInput(
            f"{move.guest} cannot move by post-copy: the kernel allows no userfaultfd ({reason})",
            hint="on this machine: sysctl vm.unprivileged_userfaultfd=1; in a container, "
            'CAP_SYS_PTRACE may help; or choose another escape: "stop and copy" or "throttle"',
        )


def no_faults(host: Host, uid: int, *rights: str) -> str:
    """Return why a user with these rights cannot handle page faults on a host; empty if one can."""
    capabilities, number = ",".join(("-all", *rights)), NUMBERS.get(os.uname().machine)
    if number is None:
        return ""
    result = host.run("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups",
                      f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}",
                      "perl", "-e", FAULTS, number)  # fmt: skip
    return "" if result.ok else (result.stdout + result.stderr).strip() or "no reason given"


# Until it has moved both hosts hold it.
def _has_room(move: Move) -> None:
    text = move.origin.check("guest", f"@{move.guest}", "get", "memory").strip()
    match = AVAILABLE.search(move.to.check("cat", "/proc/meminfo"))
    size = SIZE.fullmatch(text)
    if not match or not size:
        return
    free, takes = int(match[1]) >> 10, int(size[1]) * MEBIBYTES[size[2]]
    if free < takes:
        raise BadInput(
            f"{move.guest} takes {takes} MiB of memory, and {move.to.name} has {free} MiB to give",
            hint=f"end what takes memory there, or give it less: guest @{move.guest} set memory=",
        )
