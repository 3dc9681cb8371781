"""The control groups of a box: all its processes are in them, and its hosts' limits hold there."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.box import processes
from labkit.box.rootless.inside import inside
from labkit.errors import BoxError

PREFIX = "labkit-"
V2 = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
V1 = tuple(Path("/sys/fs/cgroup") / kind for kind in ("pids", "freezer", "systemd"))
# When a group is gone the box was taken down meanwhile, so nothing may start any more.
JOIN = """\
while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" || exit; shift; done
shift; exec "$@\""""
GROUP = "box"
"""The group for what belongs to no host: version 2 wants processes in the leaves of its tree."""
KILL_SECONDS = 15.0
V1_MOUNT = re.compile(r"^\S+ (/sys/fs/cgroup/\S+) cgroup ", re.MULTILINE)


def hierarchy() -> Path | None:
    """The tree where groups can be made here: version 2 if there is one, else one of version 1."""
    for root in V2:
        if (root / "cgroup.controllers").exists():
            return root
    return next((root for root in V1 if (root / "cgroup.procs").exists()), None)


def groups() -> list[str]:
    """The names of all boxes that have a control group."""
    roots = {root for root in (hierarchy(), *version_1()) if root}
    places = {at.name for root in roots for at in root.glob(f"{PREFIX}*")}
    return sorted(name.removeprefix(PREFIX) for name in places)


def version_1() -> list[Path]:
    """The trees of version 1; each has controllers of its own."""
    return [Path(at) for at in V1_MOUNT.findall(Path("/proc/self/mounts").read_text())]


def cpu_sets() -> Path | None:
    """The tree whose groups can be given CPUs on this machine."""
    root = hierarchy()
    if root and "cpuset" in _words(root / "cgroup.subtree_control"):
        return root
    tree = Path("/sys/fs/cgroup/cpuset")
    return tree if _words(tree / "cgroup.procs") else None


def _words(file: Path) -> list[str]:
    with suppress(OSError):
        return file.read_text().split()
    return []


@dataclass(frozen=True)
class Cgroup:
    """The control group of one box."""

    path: Path

    @classmethod
    def of(cls, name: str) -> Cgroup:
        """The group of box `name`, which may not exist yet."""
        if inside():
            return Ungrouped(Path("/proc"))
        root = hierarchy()
        if root is None:
            raise BoxError(
                "this machine shows no control groups, which a box needs to end its processes",
                hint="mount one: mount -t cgroup2 none /sys/fs/cgroup",
            )
        return cls(root / f"{PREFIX}{name}")

    @property
    def places(self) -> list[Path]:
        """The folders that it has or could have: version 1 has a tree for each kind of limit."""
        trees = (root / self.path.name for root in version_1())
        return [self.path, *(place for place in trees if place != self.path)]

    @property
    def exists(self) -> bool:
        """Whether anything of the group is there."""
        return any(place.is_dir() for place in self.places)

    def make(self) -> None:
        """Make the group."""
        with self._refusals_named():
            self.path.mkdir()
            (self.path / GROUP).mkdir()

    def limit(self, role: str, cpus: str) -> None:
        """Make the group of a host, on these CPUs; empty are all.

        CPUs are limited only where there are such groups.
        """
        with self._refusals_named():
            (self.path / role).mkdir()
            if cpus and (root := cpu_sets()):
                _give(self._make(root, role, "cpuset") / "cpuset.cpus", cpus)

    def delegate(self, role: str) -> None:
        """Give a host groups of its own for every limit; it can divide them further."""
        with self._refusals_named():
            for root in version_1():
                if not (root / self.path.name / role).exists():
                    self._make(root, role, root.name)
            for controller in _words(self.path / "cgroup.controllers"):
                _give(self.path / "cgroup.subtree_control", f"+{controller}")

    def leave_to(self, pid: int) -> None:
        """Take who holds a host's namespaces out of its group: no one in there sees it to move it.

        Version 2 divides no group that has processes of its own.
        """
        if _words(self.path / "cgroup.controllers"):
            (self.path / GROUP / "cgroup.procs").write_text(str(pid))

    # Version 1 wants the CPUs and the nodes of each group named before a process may be in it.
    def _make(self, root: Path, role: str, controller: str) -> Path:
        place = root / self.path.name / role
        place.mkdir(parents=True, exist_ok=True)
        if root == self.path.parent:
            _give(self.path / "cgroup.subtree_control", f"+{controller}")
            return place
        for name in ("cpuset.cpus", "cpuset.mems"):
            for group in (place.parent, place):
                _give(group / name, (root / name).read_text() if (root / name).exists() else "")
        return place

    @contextmanager
    def _refusals_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BoxError(
                f"cannot make the control group {error.filename or self.path}",
                said=str(error),
                hint="in a container, start it privileged",
            ) from error

    def within(self, words: Sequence[str], role: str = GROUP) -> list[str]:
        """The command that joins the group of `role` first and then becomes `words`."""
        places = [str(place / role) for place in self.places if (place / role).is_dir()]
        return ["sh", "-c", JOIN, "join", str(self.path / role), *places[1:], "--", *words]

    def run(self, words: Sequence[str], text: str = "") -> None:
        """Run a command in the group to its end; it must succeed."""
        processes.run(words, text, self.within([]))

    def pids(self) -> list[int]:
        """The processes in the group, and in groups that its processes made."""
        members: list[int] = []
        for procs in self.path.rglob("cgroup.procs"):
            with suppress(OSError):  # a group may go while we look
                members += map(int, procs.read_text().split())
        return members

    def kill(self) -> None:
        """End every process in the group, and wait until none is left."""
        until = time.monotonic() + KILL_SECONDS
        while self.exists and (members := self.pids()):
            if time.monotonic() > until:
                raise BoxError(
                    f"processes {members} do not end", hint="they may be in uninterruptible sleep"
                )
            try:
                (self.path / "cgroup.kill").write_text("1")  # Linux 5.14
            except OSError:
                for pid in members:
                    processes.kill(pid, lambda pid=pid: pid in self.pids())  # type: ignore[misc]
            time.sleep(0.002)

    def remove(self) -> None:
        """Remove the group, which must be empty, and the groups in it."""
        until = time.monotonic() + KILL_SECONDS
        while self.exists:
            with suppress(OSError):
                for place in self.places:
                    for folder, _, _ in os.walk(place, topdown=False):
                        os.rmdir(folder)
                return
            if time.monotonic() > until:
                raise BoxError(f"the control group {self.path} cannot be removed")
            self.kill()
            time.sleep(0.002)


@dataclass(frozen=True)
class Ungrouped(Cgroup):
    """A box without control groups: every process of its namespace belongs to it."""

    @property
    def exists(self) -> bool:
        """Whether there is anything to end."""
        return bool(self.pids())

    def make(self) -> None:
        """There is nothing to make."""

    def limit(self, role: str, cpus: str) -> None:
        """CPUs are kept to by `taskset`."""

    def within(self, words: Sequence[str], role: str = GROUP) -> list[str]:
        """The command as it is."""
        return list(words)

    def pids(self) -> list[int]:
        """All but the keeper, and who came in from outside as this process did."""
        return [pid for at in self.path.glob("[0-9]*")
                if (pid := int(at.name)) not in (1, os.getpid()) and _born_here(at)]  # fmt: skip

    def remove(self) -> None:
        """There is nothing to remove."""


# Who entered has no parent in there; who has ended may still be listed.
def _born_here(process: Path) -> bool:
    with suppress(OSError):
        state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
        return state != "Z" and int(parent) not in (0, os.getpid())
    return False


# The files of the other version are not there.
def _give(file: Path, text: str) -> None:
    if file.exists():
        file.write_text(text.strip())
