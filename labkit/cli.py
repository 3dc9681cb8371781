"""The command `labkit`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from labkit import __version__, commands
from labkit.errors import LabkitError

TOP = """\
A performance lab for virtualization: run documented studies on real hosts, or on a lab in a
box on this machine, and have the documents' claims judged on what you measured.

  labkit doctor                what this machine can do, and what would bring the rest
  labkit studies               what can be asked
  labkit box up                bring the lab in a box up: real hosts on this machine
  labkit run lat_ping --quick  run a study there; table, notebook and report at the end
  labkit box down              take the box down; nothing is left behind

  labkit doctor --lab lab.toml    your own hosts: what is right, and what mends the rest
  labkit plan lat_ping --lab lab.toml    what a study would change there
"""
EXITS = """\
exit codes: 0 it ran to its end; 1 it did not, and the message says why; 2 the command line
cannot be meant; 130 stopped by you, everything put back.
"""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    # A polite kill is a stop like Ctrl-C: settings go back first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    asked = _parser().parse_args(words)
    if not hasattr(asked, "call"):
        _parser().print_help()
        return 2
    try:
        return int(asked.call(asked) or 0)
    except LabkitError as failed:
        print(f"labkit: {failed}", file=sys.stderr)
        return failed.exit_code
    except KeyboardInterrupt:
        print("labkit: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "labkit",
        description=TOP,
        epilog=EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"labkit {__version__}")
    commands.add_all(parser.add_subparsers(metavar="COMMAND"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
