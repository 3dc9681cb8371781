"""The command `labkit`."""

import errno
import io
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from labkit import __version__, commands
from labkit.commands._verb import Help, Parser
from labkit.errors import LabkitError, Stopped, readable
from labkit.machine.stopping import stop_politely

TOP = """\
A performance lab for virtualization. It runs the studies of well-known documents on real
hosts, or on a lab in a box on this machine. Then it judges the documents' claims.

  labkit doctor                show what this machine can do, and what it lacks
  labkit studies               list the studies
  labkit box up                start the lab in a box: real hosts on this machine
  labkit run lat_ping --quick  run a study there; get a notebook and a report
  labkit box down              remove the box; nothing stays

  labkit doctor --lab lab.toml         check your own hosts; name remedies
  labkit plan lat_ping --lab lab.toml  show what a study would change there
"""
EXITS = """\
`labkit COMMAND --help` lists the options of a command, with examples.

exit codes: 0: success; 1: it failed, and the message says why; 2: the command line is wrong;
130: you stopped it, and all settings were put back.
"""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    with _heard_or_not():
        try:
            stop_politely()
            try:
                args = _parse(words)
                if hasattr(args, "call"):
                    return int(args.call(args) or 0)
                args.parser.print_help()
                return 2
            finally:
                sys.stdout.flush()
        except LabkitError as error:
            print(f"labkit: {error}", file=sys.stderr)
            return error.exit_code
        except KeyboardInterrupt:
            print("labkit: stopped", file=sys.stderr)
            return 130
        except OSError as error:
            print(f"labkit: {_describe(error)}", file=sys.stderr)
            return 1
        except ModuleNotFoundError as lacking:
            if str(lacking.name).startswith(("labkit.", "None")):
                raise
            print(f"labkit: {_lacks(str(lacking.name))}", file=sys.stderr)
            return 1


# Before anything else can say it: most of labkit needs some package.
def _lacks(name: str) -> str:
    import shlex
    from importlib import metadata

    words = [word for word in metadata.requires("labkit") or () if "extra ==" not in word]
    command = shlex.join([sys.executable, "-m", "pip", "install", *words])
    return f"the Python package {name} is not installed\n  hint: {command}"


def _parse(words: Sequence[str] | None) -> Namespace:
    words = list(sys.argv[1:] if words is None else words)
    args, odd_words = parser().parse_known_args(words)
    # Options may stand before the command that is measured, where argparse takes no more words.
    command = words[words.index("--") + 1 :] if "--" in words else []
    if command and getattr(args, "words", None) == [] and odd_words[-len(command) :] == command:
        args.words, odd_words = command, odd_words[: -len(command)]
        odd_words = [word for word in odd_words if word != "--"]
    if odd_words:
        args.parser.refuse(odd_words)
    return args


def parser() -> ArgumentParser:
    """All that the command line takes."""
    top = Parser("labkit", description=TOP, epilog=EXITS, formatter_class=Help)
    top.add_argument("--version", action="version", version=f"labkit {__version__}")
    verbs = top.add_subparsers(title="commands", metavar="COMMAND")
    top.set_defaults(parser=top, verbs=verbs.choices)
    commands.add_all(verbs)
    return top


# What no part of labkit has said in words of its own.
def _describe(error: OSError) -> str:
    from labkit.machine.places import out

    place = readable(f"{error.filename}: " if error.filename else "")
    hint = "\n  hint: is the disk full? df says" if error.errno == errno.ENOSPC else ""
    if str(error.filename).startswith(str(out())):
        hint = "\n  hint: LABKIT_OUT names another folder"
    return f"{place}{error.strerror or error}{hint}"


class _Outlet(io.FileIO):
    """Where a reader has gone away (`| head -1`, a closed terminal), the rest is for nobody."""

    def write(self, content: Any) -> int:
        """Write as FileIO does, but give no reason to stop work on hosts half way."""
        try:
            return super().write(content)
        except OSError as error:
            if self.fileno() == 1 and error.errno not in (errno.EPIPE, errno.EIO):
                raise OSError(error.errno, error.strerror, "the standard output") from None
            return len(content)


# A study goes on, and ends with its true exit code, also where nobody reads what it says; and
# where it speaks in an old encoding (LANG), what that cannot write is written as an escape.
@contextmanager
def _heard_or_not() -> Iterator[None]:
    before = sys.stdout, sys.stderr
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None or stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _outlet(number, stream))
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        sys.stdout, sys.stderr = before


def _outlet(number: int, stream: Any) -> io.TextIOWrapper:
    if stream is None:  # it was closed before we began
        return open(os.devnull, "w")
    stream.flush()
    raw = _Outlet(number, "w", closefd=False)
    lines = raw.isatty() or number == 2
    return io.TextIOWrapper(
        io.BufferedWriter(raw), stream.encoding, "backslashreplace", line_buffering=lines
    )


def command() -> NoReturn:
    """Run labkit for a shell; after a stop, wait for no thread that still asks a silent host."""
    code = main()
    if code == Stopped.exit_code:
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    command()
