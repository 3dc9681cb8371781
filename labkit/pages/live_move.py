"""A guest that moves under its load, drawn while it does: a run by hand in a notebook."""

from concurrent.futures import ThreadPoolExecutor, wait

from labkit.charts.moving import seen_live
from labkit.event import Happening, happening
from labkit.lab import Lab
from labkit.pages.staying import Show, new_display
from labkit.study import Study

REDRAWN_SECONDS = 1.0


def watched(study: Study, lab: Lab, condition: str, show: Show | None = None) -> dict[str, str]:
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
