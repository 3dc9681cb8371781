"""The lab in a box without root: all of it inside one outer user namespace, where it seems root.

A keeper holds the outer namespaces. labkit enters them to make the box and to look at it; SSH from
outside goes through `dial.py`. When the keeper is killed, everything in there ends with it.
"""

import functools
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from labkit.box import processes
from labkit.box.folder import BOXES, Tell, all_boxes
from labkit.box.needs import SEARCH_PATH, TUN, is_root
from labkit.box.processes import ENVIRONMENT
from labkit.box.rootless.inside import MARK, TIER
from labkit.errors import BoxError
from labkit.machine import account
from labkit.machine.scripts import beside
from labkit.programs.packages import install_words

PROGRAMS = ("ip", "mount", "newuidmap", "nsenter", "setpriv", "setsid", "unshare")

__all__ = ["TIER", "Rootless", "kept", "lacking", "outside", "possible"]

OUTER = ("unshare", "--user", "--map-root-user", "--map-auto", "--net", "--mount", "--pid",
         "--fork", "--kill-child", "--mount-proc")  # fmt: skip
TRIAL = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "true")
"""Of the users that a box needs, the one with the largest number."""
KEEPER = beside(__file__, "user_namespace_keeper.sh")
"""It waits for nobody, so who ends in there is forgotten at once."""


KILL_SECONDS = 15.0


def kept() -> Path:
    """The folder of this user's boxes."""
    return account.state() / "boxes"


class Rootless:
    """One inside namespaces that a keeper holds; its folder is /run/labkit/NAME in there."""

    def __init__(self, name: str) -> None:
        self.name, self.path = name, kept() / name
        self.lab = self.path / "lab.toml"
        self.keeper = kept() / f"{name}.keeper"
        """Says which process holds its namespaces."""

    @property
    def exists(self) -> bool:
        """Whether there is anything of it."""
        return self.keeper.exists()

    def processes(self) -> list[int]:
        """The keeper, and what else carries the box's name: the rest ends with these."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if pid != os.getpid() and self._carries(pid)]  # fmt: skip

    def _carries(self, pid: int) -> bool:
        with suppress(OSError):
            place = Path("/proc", str(pid))
            marks = (place / "environ").read_bytes().split(b"\0")
            return place.stat().st_uid == os.geteuid() and f"{MARK}={self.path}".encode() in marks
        return False

    @property
    def alive(self) -> bool:
        """Whether its keeper runs."""
        with suppress(OSError, ValueError):
            return self._carries(int(self.keeper.read_text()))
        return False

    def up(self, tell: Tell, made_of: str) -> Path:
        """Make it, unless it is up."""
        with self._lock():
            began = not self.alive
            if began:
                self._remove()
                tell(f"no root here: making box {self.name} in a user namespace")
            try:
                if began:
                    self._keep()
                plan = str(Path(made_of).resolve()) if Path(made_of).is_file() else made_of
                self.verb("up", *([plan] if plan else []), tell=tell)
            except BaseException:
                if began or not self.lab.exists():
                    self._remove()
                raise
        return self.lab

    def verb(self, verb: str, *options: str, tell: Tell = lambda _: None) -> dict[str, Any]:
        """Have `labkit box VERB` done in there; what it says of the box."""
        labkit = [sys.executable, "-m", "labkit", "box", verb, *options]
        result = subprocess.run(
            [*self._entering, *labkit, "--name", self.name, "--json"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, env=self._environment,
        )  # fmt: skip
        with suppress(ValueError):
            facts: dict[str, Any] = json.loads(result.stdout)
            if verb == "status" or not result.returncode:
                for line in result.stderr.splitlines():
                    tell(line.strip())
                return facts
        raise BoxError(f"box {verb} did not work in its user namespace", said=result.stderr)

    def started(self, words: Sequence[str]) -> subprocess.Popen[str]:
        """A program in there, all of its ends open; what ends it is the end of its input."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*self._entering, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True,
            env=self._environment,
        )  # fmt: skip

    @property
    def _entering(self) -> list[str]:
        pid = self.keeper.read_text().strip()
        spaces = (("user", "user"), ("net", "net"), ("mount", "mnt"), ("pid", "pid_for_children"))
        return ["nsenter", *(f"--{option}=/proc/{pid}/ns/{file}" for option, file in spaces)]

    @property
    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            MARK: str(self.path),
            "PATH": f"{os.environ.get('PATH', '')}:{SEARCH_PATH}",
        }

    def _keep(self) -> None:
        words = ["sh", "-c", KEEPER, "keeper", str(kept())]
        script = 'echo $$ > "$1" && shift && exec "$@"'
        process = subprocess.Popen(
            ["setsid", "--fork", "sh", "-c", script, "outer", str(self.keeper), *OUTER, *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self._environment, cwd="/",
        )  # fmt: skip
        assert process.stdout and process.stderr
        with process.stdout, process.stderr:
            if process.stdout.readline() != b"ready\n":
                text = process.stderr.read().decode("utf-8", "replace")
                raise BoxError("the namespaces of the box could not be made", said=text)
        process.wait()

    def down(self) -> None:
        """End its processes, and remove its files."""
        with self._lock():
            self._remove()

    # The first process of a namespace takes the others there along, and goes after them.
    def _remove(self) -> None:
        until = time.monotonic() + KILL_SECONDS
        while pids := self.processes():
            for pid in pids:
                processes.kill(pid, lambda pid=pid: self._carries(pid))  # type: ignore[misc]
            if time.monotonic() > until:
                raise BoxError(f"processes {pids} of box {self.name} do not end")
            time.sleep(0.005)
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)
        for file in (kept() / f"{self.name}.lock", self.keeper):
            file.unlink(missing_ok=True)

    # The lock is not that of all boxes, which is taken in there.
    @contextmanager
    def _lock(self) -> Iterator[None]:
        try:
            kept().mkdir(parents=True, exist_ok=True)
        except OSError as error:
            hint = "set XDG_STATE_HOME to a folder that you may write to"
            raise BoxError(f"no place for boxes: {kept()}", said=str(error), hint=hint) from None
        with all_boxes(kept().parent):
            yield


def outside(place: str) -> str:
    """A file of the box as it is called out here."""
    return place.replace(str(BOXES), str(kept()), 1)


def possible() -> bool:
    """Whether this user can have such a box."""
    return not is_root() and not lacking()[0]


@functools.cache
def lacking() -> tuple[str, str]:
    """Find by a try why this user cannot have such a box, and the one command that helps."""
    if not shutil.which("newuidmap", path=SEARCH_PATH):
        return "no newuidmap (package uidmap)", f"sudo {' '.join(install_words())} uidmap"
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 10, "env": ENVIRONMENT}
    try:
        result = subprocess.run([*OUTER, *TRIAL], **how)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unshare: {error}", "use Debian 12 or newer, or a similar system"
    if not result.returncode:
        return network_cards()
    span, user = "100000-165535", shlex.quote(account.name())
    way_out = f"sudo usermod --add-subuids {span} --add-subgids {span} {user}"
    for knob, free in (("apparmor_restrict_unprivileged_userns", "0"),
                       ("unprivileged_userns_clone", "1")):  # fmt: skip
        file = Path("/proc/sys/kernel", knob)
        if file.exists() and file.read_text().strip() != free:
            way_out = f"sudo sysctl kernel.{knob}={free}"
    text = result.stderr.strip().splitlines() or ["unshare ended without a message"]
    return text[-1], way_out


# Most systems open it to everybody; the kernel by itself, or who made a container, may not have.
def network_cards() -> tuple[str, str]:
    """Reason why this user could make no guest network cards, and the one command that helps."""
    if os.access(TUN, os.R_OK | os.W_OK):
        return "", ""
    if not TUN.exists():
        return f"no {TUN}, which the network of guests needs", "sudo modprobe tun"
    return f"you may not use {TUN}, which the network of guests needs", f"sudo chmod 666 {TUN}"
