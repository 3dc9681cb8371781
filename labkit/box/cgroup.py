"""The control group that all processes of a box are in, so that all of them can be found."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.box.needs import SEARCHED
from labkit.errors import BoxError

PREFIX = "labkit-"
V2 = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
V1 = tuple(Path("/sys/fs/cgroup") / kind for kind in ("pids", "freezer", "systemd"))
# When the group is gone the box was taken down meanwhile, so nothing may start any more.
JOIN = 'echo 0 > "$0/cgroup.procs" && exec "$@"'
ENVIRONMENT = {"PATH": SEARCHED, "LC_ALL": "C"}
KILL_SECONDS = 15.0


def hierarchy() -> Path | None:
    """Where groups can be made here: version 2 if there is one, else one of version 1."""
    for root in V2:
        if (root / "cgroup.controllers").exists():
            return root
    return next((root for root in V1 if (root / "cgroup.procs").exists()), None)


def groups() -> list[str]:
    """The names of all boxes that have a control group."""
    root = hierarchy()
    return [found.name.removeprefix(PREFIX) for found in root.glob(f"{PREFIX}*")] if root else []


@dataclass(frozen=True)
class Cgroup:
    """The control group of one box."""

    path: Path

    @classmethod
    def of(cls, name: str) -> Cgroup:
        """The group of box `name`, which may not exist yet."""
        root = hierarchy()
        if root is None:
            raise BoxError(
                "this machine shows no control groups, which a box needs to end its processes",
                hint="mount one: mount -t cgroup2 none /sys/fs/cgroup",
            )
        return cls(root / f"{PREFIX}{name}")

    @property
    def exists(self) -> bool:
        """Whether the group is there."""
        return self.path.is_dir()

    def make(self) -> None:
        """Make the group."""
        try:
            self.path.mkdir()
        except OSError as refused:
            raise BoxError(
                f"cannot make the control group {self.path}",
                said=str(refused),
                hint="in a container, start it privileged",
            ) from refused

    def within(self, words: Sequence[str]) -> list[str]:
        """The command that joins the group first and then becomes `words`."""
        return ["sh", "-c", JOIN, str(self.path), *words]

    def run(self, words: Sequence[str], said: str = "") -> None:
        """Run a command in the group to its end; it must succeed."""
        done = subprocess.run(
            self.within(words), input=said, text=True, capture_output=True, env=ENVIRONMENT
        )
        if done.returncode:
            what = " ".join(words)
            raise BoxError(f"`{what}` ended with code {done.returncode}", said=done.stderr)

    def pids(self) -> list[int]:
        """The processes in the group, and in groups that its processes made."""
        found: list[int] = []
        for procs in self.path.rglob("cgroup.procs"):
            with suppress(OSError):  # a group may go while we look
                found += [int(pid) for pid in procs.read_text().split()]
        return found

    def kill(self) -> None:
        """End every process in the group, and wait until none is left."""
        until = time.monotonic() + KILL_SECONDS
        while self.exists and (left := self.pids()):
            if time.monotonic() > until:
                raise BoxError(
                    f"processes {left} do not end", hint="are they in uninterruptible sleep?"
                )
            self._kill_once(left)
            time.sleep(0.002)

    def _kill_once(self, left: list[int]) -> None:
        try:
            (self.path / "cgroup.kill").write_text("1")  # Linux 5.14
        except OSError:
            for pid in left:
                self._kill_member(pid)

    # The descriptor stands for one process for good; the number alone may be another's by now.
    def _kill_member(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            try:
                if pid in self.pids():
                    signal.pidfd_send_signal(process, signal.SIGKILL)
            finally:
                os.close(process)

    def remove(self) -> None:
        """Remove the group, which must be empty, and the groups in it."""
        until = time.monotonic() + KILL_SECONDS
        while self.exists:
            with suppress(OSError):
                self._remove_once()
            if self.exists and time.monotonic() > until:
                raise BoxError(f"the control group {self.path} cannot be removed")
            if self.exists:
                self.kill()
                time.sleep(0.002)

    def _remove_once(self) -> None:
        for folder, _, _ in os.walk(self.path, topdown=False):
            os.rmdir(folder)
