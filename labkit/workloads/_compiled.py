"""Compiles our own C programs on this machine once, and lends them to hosts for a run."""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from labkit.errors import BadInput, HostError
from labkit.host import Host
from labkit.programs.packages import brings, this_system

PROGRAMS = ("gcc",)

SOURCES = Path(__file__).parent
COMPILER = "gcc"
"""It is needed on the machine that labkit runs on, not on hosts."""
LOOK_MILLISECONDS = 200
UML_PAGES = "a guest of User-Mode Linux may need a larger vm.max_map_count on its machine"
Words = Sequence[str]
FLAGS = ("-O2", "-Wall", "-fno-tree-loop-distribute-patterns")
"""Fixed, as figures depend on them: no -march, so that any x86-64 host runs the same code, and no
loop becomes a call of memcpy, whose stores may pass by the caches."""


def lacking() -> str:
    """Why nothing can be compiled here; empty when it can."""
    if shutil.which(COMPILER):
        return ""
    return f"{COMPILER} is missing on this machine, to get it: {_how()}"


def _how() -> str:
    return brings(COMPILER, system=this_system())


@functools.cache
def compiled(name: str, *options: str) -> bytes:
    """The program that `name`.c becomes, the same for all hosts."""
    if why := lacking():
        raise BadInput(why)
    with tempfile.TemporaryDirectory(prefix="labkit-") as folder:
        out = Path(folder, name)
        words = [COMPILER, *FLAGS, "-o", str(out), str(SOURCES / f"{name}.c"), *options]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise BadInput(
                f"{name}.c cannot be compiled here", said=done.stderr[-500:],
                hint=_how(),
            )  # fmt: skip
        return out.read_bytes()


def digest(program: bytes) -> str:
    """Enough of its SHA-256 to tell programs apart."""
    return hashlib.sha256(program).hexdigest()[:12]


@contextmanager
def lent(host: Host, **programs: bytes) -> Iterator[dict[str, str]]:
    """The host has these programs until the block ends; yields the path of each."""
    folder = host.check("mktemp", "-d", "/tmp/labkit-programs.XXXXXXXX").strip()
    paths = {name: f"{folder}/{name}" for name in programs}
    try:
        for name, program in programs.items():
            host.put(program, paths[name], 0o755)
        yield paths
    finally:
        host.run("rm", "-rf", folder)


def watched(host: Host, name: str, program: bytes, words: Words, seconds: float, hint: str) -> str:
    """What our program `name` prints, and the CPU time meanwhile, as parts of one text.

    NAME=VALUE among the first words is for its environment.
    """
    with lent(host, watch_cpus=compiled("watch_cpus", "-static"), **{name: program}) as paths:
        around = [word for word in words if "=" in word.partition("/")[0]]
        own = [word for word in words if word not in around]
        whole = [paths["watch_cpus"], name, str(LOOK_MILLISECONDS)]
        whole += ["env", *around] if around else []
        return checked(host, [*whole, paths[name], *own], seconds, hint)


def checked(host: Host, words: Words, seconds: float, too_much: str) -> str:
    """What the words print; `too_much` says what to try where the kernel has killed them."""
    name = words[1] if words[0].endswith("/watch_cpus") else Path(words[0]).name
    done = host.run(*words, seconds=seconds)
    if done.signal == "KILL":
        raise HostError(
            f"{host.name}: {name} was killed in mid-run, as for lack of memory",
            said=done.stderr[-300:], hint=f"{too_much}; {UML_PAGES}",
        )  # fmt: skip
    if not done.ok:
        raise HostError(
            f"{host.name}: {name} ended with code {done.code}",
            said=(done.stderr or done.stdout)[-500:], hint=too_much,
        )  # fmt: skip
    return done.stdout
