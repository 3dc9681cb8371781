"""One thing that a writer of results does: writer.py ACTION PATH; its code is 3 if it said no."""

import gzip
import hashlib
import sys
from dataclasses import asdict
from pathlib import Path

from labkit.errors import LabkitError
from labkit.machine.records import pretty
from labkit.results import Results, Run
from labkit.runs import bundle

TEXT = "64 bytes from 198.18.0.2: icmp_seq=1 ttl=64 time=0.042 ms\n" * 50
RUN = Run("VM-Default", 2, 2, "finished", rows=({"metric": "round trip", "n": 50},))


def keep(path):
    Results.open(path).keep(RUN, {"ping.txt": TEXT})


def noted(path):
    results = Results.open(path)
    note = results.note(RUN)
    results.keep(RUN, {"ping.txt": TEXT})
    results.forget(note)


def begin(path):
    Results.begin(path / "new", {"study": "lat_ping", "label": "x"})


def export(path):
    bundle.export(Results.open(path), path.parent / "out.labkit")


def unpack(path):
    bundle.unpack(bundle.examine(path.parent / "in.labkit"), path.parent / "unpacked")


# What a writer does that thinks of no crash: it has to be caught.
def careless(path):
    folder = path / "runs" / "002-VM-Default-b2"
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    raw = {"ping.txt": hashlib.sha256(TEXT.encode()).hexdigest()}
    fields = {**asdict(RUN), "path": "", "raw": raw}
    (folder / "run.json").write_bytes(pretty(fields))
    (folder / "raw" / "ping.txt.gz").write_bytes(gzip.compress(TEXT.encode()))


if __name__ == "__main__":
    try:
        globals()[sys.argv[1]](Path(sys.argv[2]))
    except LabkitError:
        sys.exit(3)
