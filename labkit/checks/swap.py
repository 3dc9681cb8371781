"""Can memory be paged out while labkit measures?"""

from collections.abc import Iterator

from labkit.check import OK, WARNING, Check, Finding, Subject

USED = "cat /proc/meminfo"


def _look(place: Subject) -> Iterator[Finding]:
    lines = (line.partition(":") for line in place.shown(USED).splitlines())
    kib = {name: int(value.split()[0]) for name, _, value in lines if value.split()}
    total, free = kib.get("SwapTotal", 0), kib.get("SwapFree", 0)
    if total > free:
        text = f"{(total - free) // 1024} MiB are swapped out; bringing them back takes time"
        yield Finding(WARNING, text, fix="swapoff -a")
    else:
        yield Finding(OK, "nothing is swapped out")


check = Check("memory stays in memory", _look, "kind", kinds=("linux",))
