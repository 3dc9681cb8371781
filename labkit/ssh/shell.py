"""A POSIX shell on a host that runs commands one after another, and marks the end of each.

A nonce marks the end of each command on both streams. It is sent on the shell's input, so it is in
no list of processes. No output of a command can therefore pass for a mark, or for another's output.
"""

import math
import secrets
import shlex
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from labkit.errors import BadInput, sendable
from labkit.files.pipe import Channel, Gone
from labkit.host import NOTHING
from labkit.machine.scripts import beside

PROGRAMS = ("perl", "python3")

NOISE = 1 << 16
# What still holds the streams when a command has ended is given this long to let go of them.
GRACE_SECONDS = 0.5
# A signal that comes just as a wait begins, Ctrl-C too, is seen when it ends: so none is long.
TURN_SECONDS = 1.0
# A shell that says nothing for so long will not; a guest without hardware support takes seconds.
UP_SECONDS = 30.0
# More would meet a limit of the kernel, or of a server with a small window, while nobody reads.
LONGEST_LINE = 16_000

# Orphans of a command, even those in a session of their own, become children of a shell that is
# their subreaper (PR_SET_CHILD_SUBREAPER is 36 in prctl(2), and survives exec); so the shell sees
# in /proc what a command left behind. prctl's number is the one of perl's own architecture, by the
# header of its program (elf(5)), for perl's Config takes longer to load than perl itself.
PERL = beside(__file__, "shell_reaper.pl").strip().replace("\n", " ")
PYTHON = (
    "import ctypes, os; os.stat(f'/proc/self/task/{os.getpid()}/children');"
    " ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0 and os.execvp('sh', ['sh'])"
)
LOOPS = (f"exec perl -e {shlex.quote(PERL)}", f"exec python3 -c {shlex.quote(PYTHON)}")
"""A shell for any number of commands, where the host has what that takes; else it ends at once."""
ONCE = 'IFS= read -r labkit_p; eval "$labkit_p"'
"""A shell for one command, which may have input: `read` takes no byte beyond the line."""

# The shell's own complaints go nowhere, for a shell may say "Killed" of a command. Its variables
# have names that nobody exports, lest a command find them in its environment.
PRELUDE = beside(__file__, "shell_prelude.sh").strip().replace("\n", " ")
BEGIN = "exec 9>&2 2>/dev/null; unset labkit; labkit={nonce}; LC_ALL=C; export LC_ALL"
# Tools of the system are there, and not on the path of a login that is not root's.
SBIN = (
    "case :$PATH: in *:/usr/sbin:*) ;; "
    "*) PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; export PATH ;; esac"
)
END = """\
exec 2>/dev/null; kill -s TERM -- "-$1"; for turn in 1 2 3 4 5 6 7 8 9 10; do
kill -s 0 -- "-$1" || exit 0; sleep 0.1; done; kill -s KILL -- "-$1\""""
# Names that a shell does not let go of.
SHELL_NAMES = {"PPID", "UID", "EUID", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO", "labkit_n"}

LONGEST_MARK = 256
"""A mark and its words are never longer, in bytes."""


class Late(Exception):
    """A deadline has passed."""


class BrokenStream(Gone):
    """A mark followed by something that no shell of ours says."""


Mark = tuple[bytes, ...]
"""The end of one command on one stream: the words that the shell put behind it."""


class Marked:
    """Cuts a stream at its marks, however the bytes arrive; it holds back a few bytes at most."""

    def __init__(self, nonce: bytes) -> None:
        self._nonce = nonce
        self._held = b""

    def feed(self, part: bytes) -> Iterator[bytes | Mark]:
        """Yield all that is now known to be output, in order, and the marks between."""
        tail = self._held + part if self._held else part
        while (at := tail.find(self._nonce)) >= 0:
            end = tail.find(b"\n", at, at + LONGEST_MARK)
            if end < 0 and len(tail) - at >= LONGEST_MARK:
                raise BrokenStream(f"a mark of more than {LONGEST_MARK} bytes")
            if at:
                yield tail[:at]
            if end < 0:
                self._held = tail[at:]
                return
            yield tuple(tail[at + len(self._nonce) : end].split())
            tail = tail[end + 1 :]
        start = self._mark_begin(tail)
        self._held = tail[start:]
        if start:
            yield tail[:start]

    # Where the end of `rest` may be the beginning of a mark.
    def _mark_begin(self, tail: bytes) -> int:
        at = tail.find(self._nonce[:1], max(0, len(tail) - len(self._nonce) + 1))
        while at >= 0 and not self._nonce.startswith(tail[at:]):
            at = tail.find(self._nonce[:1], at + 1)
        return len(tail) if at < 0 else at


@dataclass
class Kept:
    """The kept part of one stream of one command; `size` counts what was dropped, too."""

    cap: int
    tell: Callable[[bytes], None] | None = None
    content: bytearray = field(default_factory=bytearray)
    size: int = 0
    mark: Mark = ()

    def add(self, part: bytes) -> None:
        """Keep `part`, or what the cap allows of it."""
        self.size += len(part)
        if (room := self.cap - len(self.content)) > 0:
            self.content += part[:room]
        if self.tell:
            self.tell(part)


@dataclass
class ShellCommand:
    """A command that was given to a shell, and what has come back."""

    number: int
    streams: tuple[Kept, Kept]
    ended: float = 0.0
    left_behind: bool = False

    @property
    def words(self) -> tuple[bytes, ...]:
        """The shell's words at the end: the code, and whether children are left."""
        return self.streams[0].mark[1:]

    @property
    def left(self) -> bool:
        """Whether a process of its was still there."""
        return b"left" in self.words


class Shell:
    """One shell on one channel, which it closes; `once` for a single command."""

    def __init__(self, channel: Channel, once: bool) -> None:
        self.channel, self.once = channel, once
        nonce = secrets.token_hex(16)
        self._unsent = f"{BEGIN.format(nonce=nonce)}; {SBIN}; {PRELUDE};"
        self._marked = (Marked(nonce.encode()), Marked(nonce.encode()))
        self._queues: tuple[deque[ShellCommand], deque[ShellCommand]] = (deque(), deque())
        self._count = 0
        self.foreign = False
        self.ready = self._expect(Kept(NOISE), Kept(NOISE))
        self.born = self.used = time.monotonic()

    @property
    def fit(self) -> bool:
        """Whether another command may be given to it: nothing can write to its streams."""
        busy = any(self._queues) or self.channel.ended
        return not (self.once or busy or self.foreign)

    @property
    def up(self) -> bool:
        """Whether it has said so, which it does before it runs anything."""
        return bool(self.ready.streams[0].mark)

    @property
    def group(self) -> str:
        """The process group to end in need, once it is known."""
        return b"".join(self.ready.words[:1]).decode("ascii", "replace")

    def give(self, command: str, out: Kept, err: Kept) -> ShellCommand:
        """Send one command, which `line` made."""
        order = self._expect(out, err)
        run = f"({command});labkit_z {order.number}"
        self.channel.send(f"{self._unsent}{run}\n".encode("utf-8", "surrogateescape"))
        self._unsent = ""
        return order

    def wait(self, order: ShellCommand, deadline: float) -> None:
        """Read until the command has ended; see what it left behind."""
        while not order.ended:
            self.read(deadline)
        if order.left or self.once:
            order.left_behind = not self._silent_to_the_end() or self.foreign
            self.foreign = True

    def read(self, deadline: float) -> None:
        """Read what comes next."""
        limit = deadline if self.up else min(deadline, self.born + UP_SECONDS)
        if (seconds := limit - time.monotonic()) <= 0:
            raise Late
        parts = self.channel.recv(min(seconds, TURN_SECONDS))
        for side, part in enumerate(parts):
            if part:
                self._sort(side, part)
        if self.channel.ended and not any(parts):
            raise Gone

    def hear_out(self) -> None:
        """Read what it said before it ended, if it was not read yet."""
        until = time.monotonic() + GRACE_SECONDS
        with suppress(Late, Gone):
            while True:
                self.read(until)

    def _expect(self, out: Kept, err: Kept) -> ShellCommand:
        order = ShellCommand(self._count, (out, err))
        self._count += 1
        for queue in self._queues:
            queue.append(order)
        return order

    def _sort(self, side: int, part: bytes) -> None:
        queue = self._queues[side]
        for piece in self._marked[side].feed(part):
            if not queue:
                self.foreign = True
            elif isinstance(piece, bytes):
                queue[0].streams[side].add(piece)
            else:
                order = queue.popleft()
                if piece[:1] != (b"%d" % order.number,):
                    raise BrokenStream(f"a mark out of turn: {piece}")
                order.streams[side].mark = piece
                if order.streams[0].mark and order.streams[1].mark:
                    self.used = order.ended = time.monotonic()

    # The shell has ended, or is about to: then its streams end, unless somebody else holds them.
    def _silent_to_the_end(self) -> bool:
        until = time.monotonic() + GRACE_SECONDS
        while not self.channel.ended and (seconds := until - time.monotonic()) > 0:
            if any(self.channel.recv(seconds)):
                return False
        return self.channel.ended


def line(
    words: tuple[str, ...], env: Mapping[str, str] = NOTHING, stdin: bool = False,
    once: bool = False,
) -> str:  # fmt: skip
    """The words as a shell reads them: quoted, so that none of them is more than a word."""
    # `exec`: the process is the command, and `until` or `A=b` are no words of the shell.
    exports = "".join(f"export {name}={shlex.quote(env[name])};" for name in env)
    # bash takes a first word with a dash for an option of exec, and dash knows no `exec --`.
    program = f"{'env -- ' if words[0].startswith('-') else ''}{shlex.join(words)}"
    text = f"{exports}exec {program} 2>&9 9>&-{'' if stdin else ' </dev/null'}"
    if once and "\n" in text:
        one_line = text.replace("\n", "'\"$labkit_n\"'")
        return f"labkit_n=$(echo;echo .);labkit_n=${{labkit_n%.}};{one_line}"
    return text


# What a login shell of any kind could take for its own within quotes: csh looks for events at each
# `!`, and ends a word at the end of a line. `printf %b` of POSIX reads these.
ODD = {char: f"\\0{ord(char):03o}" for char in "\n!\\'\"`$"}


def for_any_shell(script: str) -> str:
    """A line that runs a script of POSIX shell, whichever shell reads the line at login."""
    if not {"\n", "!"} & {*script}:
        return script
    code = "".join(ODD.get(char, char) for char in script)
    return f"""exec sh -c 'eval "$(printf %b "$0")"' '{code}'"""


def checked(
    name: str, words: tuple[str, ...], env: Mapping[str, str] = NOTHING, seconds: float = 0.0
) -> None:
    """Refuse what cannot be a command, the name of a variable, or a time."""
    if not words or not all(map(sendable, words)):
        raise BadInput(
            f"{name}: {words!r} cannot be a command",
            hint="use words of text; str() converts a number or a path",
        )
    if math.isnan(seconds):
        raise BadInput(f"{name}: {seconds} cannot be a time in seconds")
    for key, value in env.items():
        is_name = key.isascii() and key.isidentifier() and key not in SHELL_NAMES
        if not is_name or not sendable(value):
            raise BadInput(
                f"{name}: the environment cannot hold {key!r}",
                hint="a name is letters, digits and _; a shell keeps a few, such as UID, to itself",
            )
