"""Compiles our own C programs on this machine once, and lends them to hosts for a run."""

import functools
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from labkit.errors import BadInput, HostError, absence
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.programs.packages import brings, this_system
from labkit.workloads import _lasting

PROGRAMS = ("gcc",)

SOURCES = Path(__file__).parent
COMPILER = "gcc"
"""It is needed on the machine that labkit runs on, not on hosts."""
LOOK_MILLISECONDS = 200
UML_PAGES = "a guest of User-Mode Linux may need a larger vm.max_map_count on its machine"
REMOVING = 'folder=$1; shift; trap "rm -rf \\"$folder\\"" EXIT; trap "exit 143" TERM INT; "$@"'
"""A job's command, which may outlive the process that would remove what was made for it."""
APART = beside(__file__, "_compiled_apart.sh")
Words = Sequence[str]
FLAGS = ("-O2", "-Wall", "-fno-tree-loop-distribute-patterns")
"""Fixed, as figures depend on them. Without -march, any x86-64 host runs the same code. No loop
becomes a call of memcpy, whose stores may pass by the caches."""


def lacking() -> str:
    """Reason why nothing can be compiled here; empty if it can."""
    if shutil.which(COMPILER):
        return ""
    remedy = brings(COMPILER, system=this_system())
    return absence(COMPILER, "this machine", remedy)


@functools.cache
def compiled(name: str, *options: str) -> bytes:
    """The program that `name`.c becomes, the same for all hosts."""
    if reason := lacking():
        raise BadInput(reason)
    with tempfile.TemporaryDirectory(prefix="labkit-") as folder:
        out = Path(folder, name)
        words = [COMPILER, *FLAGS, "-o", str(out), str(SOURCES / f"{name}.c"), *options]
        result = subprocess.run(words, capture_output=True, text=True)
        if result.returncode:
            remedy = brings(COMPILER, system=this_system())
            problem = f"{name}.c cannot be compiled here"
            raise BadInput(problem, said=result.stderr[-500:], hint=remedy)
        return out.read_bytes()


def digest(program: bytes) -> str:
    """Enough of its SHA-256 to keep programs apart."""
    return hashlib.sha256(program).hexdigest()[:12]


def removing(path: str) -> tuple[str, ...]:
    """The beginning of a command that removes a path at its end, even if nobody waits for it."""
    return ("sh", "-c", REMOVING, "removing", path)


@contextmanager
def lent(host: Host, **programs: bytes) -> Iterator[dict[str, str]]:
    """The host has these programs until the block ends; yields the path of each."""
    folder, paths = _put(host, programs)
    try:
        yield paths
    finally:
        host.run("rm", "-rf", folder)


def _put(host: Host, programs: Mapping[str, bytes]) -> tuple[str, dict[str, str]]:
    folder = host.check("mktemp", "-d", "/tmp/labkit-programs.XXXXXXXX").strip()
    paths = {name: f"{folder}/{name}" for name in programs}
    sizes = (word for name, program in programs.items() for word in (paths[name], len(program)))
    try:
        host.put(b"".join(programs.values()), f"{folder}/all", 0o600)
        host.check("sh", "-c", APART, "apart", f"{folder}/all", *map(str, sizes))
    except BaseException:
        host.run("rm", "-rf", folder)
        raise
    return folder, paths


def asked_with(
    host: Host, name: str, programs: Mapping[str, bytes],
    words: Callable[[dict[str, str]], Words], seconds: float, too_much: str,
) -> str:  # fmt: skip
    """Run `words`, called `name`, with the paths of these programs; return what they print.

    They are removed at its end. `too_much` says what to try if the kernel has killed them.
    """

    def bring() -> tuple[str, ...]:
        folder, paths = _put(host, programs)
        return (*removing(folder), *words(paths))

    end = _lasting.ended(host, [*programs], bring, seconds)
    if end.ok:
        return end.out
    how = "was killed during the run, perhaps for lack of memory" if end.killed else end.how
    hint = f"{too_much}; {UML_PAGES}" if end.killed else too_much
    said = (end.err or end.out)[-500:]
    raise HostError(f"{host.name}: {name} {how}", said=said, hint=hint)


def watched(
    host: Host, name: str, program: bytes, words: Words, seconds: float, hint: str, asked: str
) -> str:
    """Run our program `name`; return its output and the CPU time meanwhile, as parts of one text.

    What was `asked` stands before. NAME=VALUE among the first words is for its environment.
    """
    around = [word for word in words if "=" in word.partition("/")[0]]
    command = [word for word in words if word not in around]
    watch = (name, str(LOOK_MILLISECONDS), *(("env", *around) if around else ()))
    programs = {"watch_cpus": compiled("watch_cpus", "-static"), name: program}

    def words_at(at: dict[str, str]) -> Words:
        return [at["watch_cpus"], *watch, at[name], *command]

    text = asked_with(host, name, programs, words_at, seconds, hint)
    return f"=== asked ===\n{asked} program={digest(program)}\n{text}"
