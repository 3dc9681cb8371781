"""Is there room for the journal of changes and for what tools print?"""

from collections.abc import Iterator

from labkit.check import FAILURE, OK, WARNING, Check, Finding, Subject

TIGHT, ROOMY = 16, 256
"""MiB."""
FREE = """\
for place in "${LABKIT_CHANGES:-/var/lib}" /var/lib "$HOME" /tmp; do
    [ -d "$place" ] && set -- $(df -Pk "$place" | tail -n 1) && echo "$place $4"; done; true"""


def _look(place: Subject) -> Iterator[Finding]:
    rows = [line.split() for line in place.shown(FREE).splitlines()]
    free = {row[0]: int(row[1]) // 1024 for row in rows if len(row) == 2 and row[1].isdigit()}
    if not free:
        yield Finding(WARNING, "its free space is unknown", fix="df -P /tmp")
        return
    fullest = min(free, key=lambda name: free[name])
    state = FAILURE if free[fullest] < TIGHT else WARNING if free[fullest] < ROOMY else OK
    fix = "" if state == OK else f"free some of {fullest}: du -xh {fullest} | sort -h | tail"
    yield Finding(state, f"{free[fullest]} MiB free in {fullest}", fix=fix)


check = Check("its disk has enough space", _look, after="kind")
