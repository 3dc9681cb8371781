"""`labkit demo`: it all once, from the box to the report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from labkit.commands._verb import now, show_answer, verb
from labkit.errors import BoxError

NEXT = """\
Three things to try next:
  {lab}
      JupyterLab, open at notebooks/00-start-here.ipynb
  {labkit} {more}
  {labkit} doctor
      what this machine can do, and what it lacks"""
MORE = {
    True: "run lat_ping -p repeats=10\n      more blocks: the undecided claims get clearer",
    False: "scorecard\n      every claim of every document, on all runs that come with labkit",
}
"""Whether there was a lab: where there is none, nothing can be measured."""


def add(verbs: Any) -> None:
    """Add the verb."""
    verb(verbs, "demo", _demo, "see it all once: box up, a study, its report, box down", "")


def _demo(asked: argparse.Namespace) -> None:
    from labkit import box, studies

    was_up = box.status("lab").state == "up"
    # The pair is up soon; the box that the study would make for itself has four guests.
    lab = _demo_box_up()
    place = str(lab) if lab else "recorded"
    asked.json, given = False, {"where": place, "label": now()}
    try:
        show_answer(studies.find("lat_ping"), given, asked)
    finally:
        if lab and not was_up:
            box.down("lab")
    if lab:
        print("box       left up, as it was" if was_up else "box       down again, nothing left")
    print(f"\n{_next(measured=lab is not None)}")


# An installed labkit is on the PATH, and its notebooks are not for writing.
def _next(*, measured: bool) -> str:
    from labkit.box.needs import CHECKOUT
    from labkit.machine.places import HOME

    copied = f"cp -r {HOME}/notebooks . && jupyter lab notebooks/00-start-here.ipynb"
    lab, labkit = ("make lab", ".venv/bin/labkit") if CHECKOUT else (copied, "labkit")
    return NEXT.format(lab=lab, labkit=labkit, more=MORE[measured])


# Before the notebook runs: here sudo can ask for a password, and everyone sees what comes up.
def _demo_box_up() -> Path | None:
    from labkit import box
    from labkit.box import needs
    from labkit.box.rootless import sudo, user_namespace
    from labkit.pages.terminal import progress_line

    if not needs.is_root() and not (sudo.possible() or user_namespace.possible()):
        print("without root, a box has no links to measure\n\nSo you see a recorded run;"
              " `labkit doctor` says more.\n")  # fmt: skip
        return None
    try:
        with progress_line() as line:
            return box.up("lab", line.say)
    except BoxError as refused:
        print(f"{refused}\n\nSo you see a recorded run; `labkit doctor` says more.\n")
        return None
