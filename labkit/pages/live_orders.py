"""Orders a second, drawn while customers buy: what a run by hand shows in a notebook."""

import time
from collections.abc import Mapping

from labkit.charts import over_time
from labkit.errors import CommandFailed
from labkit.host import Host
from labkit.pages.staying import Show, new_display
from labkit.workloads.dvdstore import DvdStore, seconds_in

REDRAWN_SECONDS = 1.0


def watched(load: DvdStore, hosts: Mapping[str, Host], show: Show | None = None) -> str:
    """Run it once; `show` is given a new picture each second. Returns what the driver printed."""
    texts: list[str] = []
    show, last_time = show or new_display(), 0.0
    with (
        load.asking(hosts) as words,
        hosts["client"].stream(*words, seconds=load.longest) as lines,
    ):
        for line in lines:
            texts.append(f"{line.text}\n")
            moment = time.monotonic()
            if moment - last_time >= REDRAWN_SECONDS and len(seconds_in("".join(texts))) > 1:
                last_time = moment
                show(picture("".join(texts)))
    total = lines.done
    if not total.ok:
        raise CommandFailed(f"{total.host}: the driver ended with code {total.code}",
                            said=total.stderr or texts[-1])  # fmt: skip
    text = "".join(texts)
    show(picture(text))
    return text


def picture(text: str, run: str = "by hand", note: str = "") -> object:
    """Orders a second of what a driver printed so far."""
    orders = seconds_in(text)
    moments = [float(at) for at in range(1, len(orders) + 1)]
    return over_time(
        {"all shops": (moments, orders)}, metric="orders", unit="1/s", run=run, note=note
    )
