"""`labkit lab`: JupyterLab, opened at the front page."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from labkit.commands._verb import verb

NO_BROWSER, ROOT_MAY = "--no-browser", "--allow-root"


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "lab", _lab, "open JupyterLab at a page of studies, labs and results",
        " | in a browser; Ctrl-C ends it",
        "-- --no-browser --port 9000 | with options of `jupyter lab`",
    )  # fmt: skip
    parser.add_argument(
        "words", nargs="*", metavar="OPTION", help="options of `jupyter lab`, after --"
    )


def _lab(asked: argparse.Namespace) -> int:
    from labkit.front import opening

    words = [word for word in asked.words if word != NO_BROWSER]
    if os.geteuid() == 0 and ROOT_MAY not in words:
        words.append(ROOT_MAY)
    opened = opening.begin(words)
    try:
        opening.show(opened, _say, browser=NO_BROWSER not in asked.words)
        return opened.process.wait()
    except KeyboardInterrupt:
        # JupyterLab has heard it too, and asks whether it is meant.
        return _ended(opened.process)
    finally:
        if opened.process.poll() is None:
            opened.process.terminate()


def _ended(process: Any) -> int:
    while True:
        try:
            return int(process.wait())
        except KeyboardInterrupt:
            continue


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
