"""Entry point of the command `labkit` and of `python -m labkit`: quiet even if stopped at once."""

import signal
from typing import NoReturn


def command() -> NoReturn:
    """Run the command line; while it is loaded, a stop is an end without a word."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from labkit.machine.lean import start_lean

    start_lean()
    from labkit.cli import command as run

    run()


if __name__ == "__main__":
    command()
