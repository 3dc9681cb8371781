"""Processes in namespaces of their own; when they end, everything in there vanishes."""

import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from labkit.box.cgroup import GROUP, Cgroup
from labkit.box.processes import ENVIRONMENT
from labkit.errors import BoxError
from labkit.machine.cpus import ranges

PROGRAMS = ("setsid", "unshare")

# Tells its own number as this machine counts, which stays its own through every exec.
PRINT_PID = 'echo $$ && exec "$@"'
SWITCH = ("unshare", "--net")
HOST = (
    "unshare", "--net", "--mount", "--uts", "--ipc", "--cgroup",
    "--pid", "--fork", "--kill-child", "--mount-proc",
)  # fmt: skip


@dataclass(frozen=True)
class Namespace:
    """A process that holds namespaces, waits for what it is given, and then goes on by itself."""

    role: str
    pid: int
    log: Path
    entrance: IO[bytes]

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return Path("/proc", str(self.pid)).exists()

    def give(self, content: bytes) -> None:
        """Give it what it waits for; it needs us no more."""
        try:
            with self.entrance:
                self.entrance.write(content)
        except BrokenPipeError:
            raise self.ended() from None

    def ended(self) -> BoxError:
        """The error that says that it is gone, with its own last words."""
        text = self.log.read_text("utf-8", "replace") if self.log.exists() else ""
        return BoxError(f"the {self.role} of the box ended before it was ready", said=text)


def begin(
    group: Cgroup,
    role: str,
    kind: Sequence[str],
    script: str,
    cpus: Sequence[int],
    log: Path,
    seat: str = GROUP,
) -> Callable[[], Namespace]:
    """Start `script` in namespaces of its own, in the group `seat`, with no tie to this process.

    What is returned waits until the namespaces exist.
    """
    words = [
        "sh", "-c", PRINT_PID, "number",
        "taskset", "-c", ranges(cpus), *kind,
        "sh", "-c", script, role,
    ]  # fmt: skip
    with open(log, "ab") as err:
        # `setsid --fork` ends at once, so that nobody here has a child to wait for later.
        process = subprocess.Popen(
            ["setsid", "--fork", *group.within(words, seat)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, env=ENVIRONMENT, cwd="/",
        )  # fmt: skip

    def ready() -> Namespace:
        assert process.stdin and process.stdout
        with process.stdout as says:
            number, word = says.readline(), says.readline()
        process.wait()
        namespace = Namespace(role, int(number or 0), log, process.stdin)
        if word != b"ready\n":
            with suppress(BrokenPipeError):
                process.stdin.close()
            raise namespace.ended()
        return namespace

    return ready
