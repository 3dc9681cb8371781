"""Runs by hand in a notebook, drawn while they go on: a guest that moves, and customers who buy."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait

from labkit.charts import over_time
from labkit.charts.moving import seen_live
from labkit.errors import CommandFailed
from labkit.event import Happening, happening
from labkit.host import Host
from labkit.lab import Lab
from labkit.pages.lab_panel import Show, new_display
from labkit.study import Study
from labkit.workloads.dvdstore import DvdStore, seconds_in

REDRAWN_SECONDS = 1.0


def watch_move(study: Study, lab: Lab, condition: str, show: Show | None = None) -> dict[str, str]:
    """Load and move the guest as a run of the condition does, and move it back.

    `show` is given a new picture each second. Returns the texts that a run keeps, by their names.
    """
    show, condition_of = show or new_display(), study.condition(condition)
    load = condition_of.load(study.workload)
    hosts = next(iter(condition_of.pairs(lab, load).values()))
    with ThreadPoolExecutor(1) as pool, happening(condition_of.events, lab) as beside:
        loading = pool.submit(load.during, hosts, beside)
        while wait([loading], REDRAWN_SECONDS).not_done:
            _draw(beside, condition, show)
        text = loading.result()
        _draw(beside, condition, show)
    return {f"{load.name}.txt": text, **beside.texts}


# Nothing has come in before it begins.
def _draw(beside: Happening, condition: str, show: Show) -> None:
    for text in beside.texts.values():
        if picture := seen_live(text, condition):
            show(picture)


def watch_orders(load: DvdStore, hosts: Mapping[str, Host], show: Show | None = None) -> str:
    """Run it once; `show` is given a new picture each second. Returns what the driver printed."""
    show, text, last_time = show or new_display(), "", 0.0
    with (
        load.asking(hosts) as words,
        hosts["client"].stream(*words, seconds=load.longest) as lines,
    ):
        for line in lines:
            text += f"{line.text}\n"
            moment = time.monotonic()
            if moment - last_time >= REDRAWN_SECONDS and len(seconds_in(text)) > 1:
                last_time = moment
                show(orders(text))
    total = lines.done
    if not total.ok:
        raise CommandFailed(f"{total.host}: the driver ended with code {total.code}",
                            said=total.stderr or text)  # fmt: skip
    show(orders(text))
    return text


def orders(text: str, run: str = "by hand", note: str = "") -> object:
    """Orders a second of what a driver printed so far, as a picture."""
    figures = seconds_in(text)
    moments = [float(at) for at in range(1, len(figures) + 1)]
    series = {"all shops": (moments, figures)}
    return over_time(series, metric="orders", unit="1/s", run=run, note=note)
