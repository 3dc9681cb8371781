"""One point in a process of its own: its notebook run to the end, and what became of it kept.

`python -m labkit.campaign.worker FOLDER NUMBER ATTEMPT [put-back]`, as `conductor.py`
begins it. It says how far it has come on its output, a line of JSON each, and stops as after a
Ctrl-C when its input ends: so it outlives no conductor, and leaves no setting changed.
"""

import json
import os
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TextIO

from labkit import studies
from labkit.campaign.asked import CampaignPoint
from labkit.campaign.conductor import PUT_BACK
from labkit.campaign.folder import (
    BEGUN,
    DIED,
    FAILED,
    FINISHED,
    STOPPED,
    TEMPORARY,
    Attempt,
    CampaignFolder,
)
from labkit.campaign.places import WAITS, Needs, held
from labkit.changes.journal import hello
from labkit.errors import HostError, LabkitError, Stopped
from labkit.lab import Lab
from labkit.machine import records
from labkit.machine.places import out
from labkit.machine.stopping import stop_politely
from labkit.pages.answer import answer
from labkit.running.left_over import put_back_on
from labkit.running.open_lab import open_lab
from labkit.runs.progress import Progress

LEASED = ("client", "server")
"""The hosts whose leases are looked at first; guests may be off, and are asked nothing."""
LOOK_SECONDS = 2.0
NOTEBOOK, PAGE, ANSWER = "notebook.ipynb", "notebook.html", "answer.json"


@dataclass(frozen=True)
class ToConductor:
    """The way to the conductor; where nobody listens any more, nothing is said."""

    stream: TextIO

    def say(self, text: str, seconds_left: float | None = None) -> None:
        """Say what is being done now."""
        with suppress(OSError, ValueError):
            words = {"said": text, "seconds_left": seconds_left}
            print(json.dumps(words), file=self.stream, flush=True)

    def tell(self, progress: Progress) -> None:
        """Say how far the study has come."""
        at = f"{progress.step} {progress.condition}"
        self.say(f"{at}, {progress.done} of {progress.of} runs", float(progress.seconds_left))


def main(words: list[str]) -> None:
    """Do what the words say."""
    stop_politely()
    wire = ToConductor(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)  # what libraries print is for the log
    if select.select([0], [], [], 0)[0]:
        return  # nobody waits for it any more, and another may have this point by now
    threading.Thread(target=_until_alone, daemon=True).start()
    folder = CampaignFolder.open(Path(words[0]))
    point = next(point for point in folder.points if point.number == int(words[1]))
    path = folder.of(point)
    with (
        held(path, Needs.of(point.lab), wire.say) as locks,
        tempfile.TemporaryDirectory(prefix=TEMPORARY, ignore_cleanup_errors=True) as temporary,
    ):
        # A name that is made in a folder shows all others in it, whichever machine made them.
        with tempfile.NamedTemporaryFile(dir=path, prefix="."):
            tries = folder.attempts(point)
        for half in path.glob(".*"):
            half.unlink()
        for attempt in (tried for tried in tries if tried.state == BEGUN):
            attempt.settle(path, DIED, "its process was killed, or its machine went down")
        if not folder.finished(point):
            number = max([int(words[2]), *(1 + tried.number for tried in tries)])
            attempt = Attempt.begin(number, temporary)
            _work(folder, point, attempt, wire, locks, PUT_BACK in words[3:])


def _until_alone() -> None:
    with suppress(OSError):
        while os.read(0, 4096):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


def _work(
    folder: CampaignFolder, point: CampaignPoint, attempt: Attempt, wire: ToConductor,
    locks: tuple[int, ...], putting_back: bool,
) -> None:  # fmt: skip
    path = folder.of(point)
    _set_aside(path, attempt)
    attempt.keep(path)
    try:
        if not point.stored:
            _get_ready(point, putting_back, wire)
        reply = answer(
            studies.find(point.study), point.given(folder.name), wire.say, wire.tell,
            target=path / NOTEBOOK, keeps=locks, temporary=Path(attempt.temporary),
        )  # fmt: skip
        _hear_no_more()
        # Safe on disk before the attempt says that it has finished.
        with records.keeping(f"the answer of {path.name}"):
            records.write(path / ANSWER, records.pretty(asdict(reply)))
            for file in (path / NOTEBOOK, path / PAGE, path):
                records.sync(file)
        reply.insist()
        end = replace(
            attempt.ended(FINISHED), results=reply.results, verdicts=reply.verdicts,
            remarks=reply.remarks,
        )  # fmt: skip
        if Path(end.results).is_relative_to(out()):  # which may be moved as a whole
            end = replace(end, results=os.path.relpath(end.results, out()))
    except (LabkitError, KeyboardInterrupt) as error:
        _hear_no_more()
        was_stopped = isinstance(error, Stopped | KeyboardInterrupt)
        state = STOPPED if was_stopped else FAILED
        end = attempt.ended(state, str(error) or "stopped", type(error).__name__)
    except Exception as error:
        _hear_no_more()
        traceback.print_exc()
        end = attempt.ended(FAILED, f"{type(error).__name__}: {error}", type(error).__name__)
    end.keep(path)


# What becomes of it is written down whatever else is asked for.
def _hear_no_more() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


# A notebook that came to no end is kept under the number of its attempt.
def _set_aside(path: Path, attempt: Attempt) -> None:
    (path / PAGE).unlink(missing_ok=True)
    if (path / NOTEBOOK).exists():
        (path / NOTEBOOK).replace(path / f"attempt-{attempt.number - 1}.ipynb")


def _get_ready(point: CampaignPoint, putting_back: bool, wire: ToConductor) -> None:
    lab = open_lab(point.lab, studies.find(point.study).topology)
    assert lab, "results need no lab"
    try:
        if putting_back:
            wire.say(f"putting back what a dead attempt has left on {point.place}")
            put_back_on(lab)  # what matters of it the study says itself
        while holders := [
            holder for role in LEASED if role in lab.hosts if (holder := _holder(lab, role))
        ]:
            wire.say(f"{WAITS} as {holders[0]}")
            time.sleep(LOOK_SECONDS)
    finally:
        lab.close()


# Somebody else measures there: not even the one run by hand of a notebook should disturb them.
# What is wrong with a host the notebook says itself.
def _holder(lab: Lab, role: str) -> str:
    try:
        greeting = hello(lab.host(role))
    except HostError:
        return ""
    return greeting.trouble(role) if greeting.held else ""


if __name__ == "__main__":
    main(sys.argv[1:])
