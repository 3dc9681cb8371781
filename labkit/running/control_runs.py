"""Runs the controls of a lab: a link as it is, the same again, and with a known delay."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from labkit import controls
from labkit.box import Faults
from labkit.changes.in_force import applied
from labkit.changes.plan import plan
from labkit.controls import Controls, NotMade
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
    delays = {} if lacking else {controls.SOME_DELAY: PUT_IN_MS, controls.MORE_DELAY: 2 * PUT_IN_MS}
    delay_of = {controls.FIRST_SIDE: 0.0, controls.SECOND_SIDE: 0.0, **delays}
    question = {
        "study": controls.STUDY, "where": str(lab.path), "seed": seed, "label": check_label(label),
        "lab": facts(lab), "workload": vars(LOAD), "metric": controls.METRIC,
        "unit": controls.UNIT,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "put_in": 1000 * PUT_IN_MS, "lacking": lacking,
    }  # fmt: skip
    results = Results.begin(controls.folder(lab.name) / label, question)
    order = [random.Random(f"{seed}/{block}").sample([*delay_of], len(delay_of))
             for block in range(1, blocks + 1)]  # fmt: skip
    steps = [(block, side) for block, sides in enumerate(order, 1) for side in sides]
    for at, (block, side) in enumerate(steps, 1):
        say(f"controls: {at} of {len(steps)} runs: {side}")
        with _delay(lab, delay_of[side]):
            start, began = time.monotonic(), datetime.now(UTC).isoformat(timespec="milliseconds")
            text = LOAD.run(lab.hosts)
            took = time.monotonic() - start
        rows = tuple(row(sample) for sample in LOAD.parse(text))
        run = Run(side, block, at, "finished", started=began, seconds=took, measured_seconds=took,
                  rows=rows)  # fmt: skip
        results.keep(run, {"ping.txt": text})
    return controls.of_results(results)


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
