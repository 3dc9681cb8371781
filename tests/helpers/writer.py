"""A process that writes results on demand in a child of its own, which waits to be traced first."""

import gzip
import hashlib
import json
import os
import signal
import sys
import tempfile
import traceback
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


ACTIONS = {action.__name__: action for action in (keep, noted, begin, export, unpack, careless)}


# Python loads some modules at their first use; that is not what is to be disturbed.
def warm_up():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r"
        results = Results.begin(path, {"study": "lat_ping", "label": "x"})
        bundle.export(results, path.parent / "in.labkit")
        for action in ACTIONS.values():
            action(path)


def main():
    warm_up()
    for line in sys.stdin:
        answer = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
            try:
                ACTIONS[answer["action"]](Path(answer["path"]))
            except LabkitError:
                os._exit(3)
            except BaseException:
                traceback.print_exc()
                os._exit(4)
            os._exit(0)
        os.waitpid(pid, os.WUNTRACED)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
