"""Runs the controls of a lab: a link as it is, the same again, and with a known delay."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from labkit.box import Faults
from labkit.changes.in_force import applied
from labkit.changes.plan import plan
from labkit.controls import (
    FIRST_SIDE,
    METRIC,
    MORE_DELAY,
    SECOND_SIDE,
    SOME_DELAY,
    STUDY,
    UNIT,
    Controls,
    NotMade,
    folder,
    of_results,
)
from labkit.errors import BadInput, BoxError, SettingRefused
from labkit.lab import Lab
from labkit.results import Results, Run, check_label
from labkit.running.open_lab import facts
from labkit.settings.egress import Link
from labkit.workload import row
from labkit.workloads.ping import Ping

PUT_IN_MS = 0.5
BLOCKS = 4
LOAD = Ping(count=500, interval=0.002)
"""Every 2 ms, which any user may."""
ROLES = ("client", "server")


def measure(
    lab: Lab, *, label: str = "", blocks: int = BLOCKS, seed: int = 1,
    say: Callable[[str], None] = lambda _: None,
) -> Controls | NotMade:  # fmt: skip
    """Run the controls between the client and the server of a lab, and keep them.

    A lab without either of them has none.

    Without a label they are named by the time of day.
    """
    label = label or f"{datetime.now():%Y%m%d-%H%M%S}"
    if absent := [role for role in ROLES if role not in lab.hosts]:
        return NotMade(f"{lab.name} has no {absent[0]}")
    if reason := LOAD.lacking(lab.hosts):
        raise BadInput(f"the controls of {lab.name} cannot be run", said=reason)
    lacking = _lacking(lab)
    sides = (
        (FIRST_SIDE, SECOND_SIDE) if lacking else (FIRST_SIDE, SECOND_SIDE, SOME_DELAY, MORE_DELAY)
    )
    question = {
        "study": STUDY, "where": str(lab.path), "seed": seed, "label": check_label(label),
        "lab": facts(lab), "workload": vars(LOAD), "metric": METRIC, "unit": UNIT,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "put_in": 1000 * PUT_IN_MS, "lacking": lacking,
    }  # fmt: skip
    results = Results.begin(folder(lab.name) / label, question)
    steps = list(_order(sides, blocks, seed))
    for at, (block, side) in enumerate(steps, 1):
        say(f"controls: {at} of {len(steps)} runs: {side}")
        with _delay(lab, {SOME_DELAY: PUT_IN_MS, MORE_DELAY: 2 * PUT_IN_MS}.get(side, 0)):
            _run(lab, results, Run(side, block, at, "finished"))
    return of_results(results)


def _order(sides: tuple[str, ...], blocks: int, seed: int) -> Iterator[tuple[int, str]]:
    for block in range(1, blocks + 1):
        sides_of_block = random.Random(f"{seed}/{block}").sample(sides, len(sides))
        yield from ((block, side) for side in sides_of_block)


def _run(lab: Lab, results: Results, run: Run) -> None:
    start, began = time.monotonic(), datetime.now(UTC).isoformat(timespec="milliseconds")
    text = LOAD.run(lab.hosts)
    took = time.monotonic() - start
    rows = tuple(row(sample) for sample in LOAD.parse(text))
    record = Run(run.condition, run.block, run.order, "finished", started=began, seconds=took,
                measured_seconds=took, rows=rows)  # fmt: skip
    results.keep(record, {"ping.txt": text})


# Both delays are made by the same means, so that its own work is in both and cancels. In a box each
# direction of the link has its half; a setting holds what leaves the client, and is journaled.
@contextmanager
def _delay(lab: Lab, ms: float) -> Iterator[None]:
    if not ms:
        yield
    elif lab.emulated:
        with Faults(lab.name).shape("client", delay=f"{ms / 2:g} ms"):
            yield
    else:
        with applied([Link(0, ms, role="client")], lab.hosts):
            yield


# Only trying shows it; in a box there may be no links, elsewhere no right to make queues.
def _lacking(lab: Lab) -> str:
    try:
        if not lab.emulated:
            return plan([Link(0, PUT_IN_MS, role="client")], lab.hosts).steps[0].why
        with _delay(lab, PUT_IN_MS):
            return ""
    except (BadInput, BoxError, SettingRefused) as error:
        return error.what
