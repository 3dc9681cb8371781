"""`labkit lab`: JupyterLab, opened at the front page."""

import argparse
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from labkit.commands._verb import arg, flag, verb
from labkit.errors import BadInput

NO_BROWSER, ROOT_MAY = "--no-browser", "--allow-root"
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@verb(
    " | in a browser; Ctrl-C ends it",
    "--no-browser | elsewhere: the address is said",
    "-- --no-browser --port 9000 | with options of `jupyter lab`",
    flag(NO_BROWSER, "say the address, and open nothing"),
    arg("words", "OPTION", nargs="*",
        text="options of `jupyter lab` go after --, as: labkit lab -- --port 9000"),
)  # fmt: skip
def _lab(args: argparse.Namespace) -> int:
    """Open JupyterLab at a page of studies, labs and results."""
    from labkit.front import opening

    words = [word for word in args.words if word != NO_BROWSER]
    args.no_browser |= NO_BROWSER in args.words
    if words[:1] == ["new"]:
        raise BadInput("`labkit lab` opens JupyterLab", hint="labkit new lab lab.toml")
    if os.geteuid() == 0 and ROOT_MAY not in words:
        words.append(ROOT_MAY)
    server = opening.begin(words)
    say = functools.partial(print, file=sys.stderr, flush=True)
    with _handed_on(server.process):
        opening.show(server, say, browser=not args.no_browser)
        return server.process.wait()


# A terminal's Ctrl-C reaches JupyterLab too, which asks whether it is meant; a kill does not.
@contextmanager
def _handed_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOPS}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in STOPS[1:]:
        signal.signal(number, lambda *_: process.terminate())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
