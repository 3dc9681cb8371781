"""3D on a remote desktop: the frames that the client sees, of those that the host made."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from labkit.errors import HostError, ResultsError
from labkit.host import Host
from labkit.programs.packages import brings
from labkit.workload import Sample, Workload, choice, knob
from labkit.workloads import _desktop
from labkit.workloads._desktop_users import ENCODINGS
from labkit.workloads._own_place import no_python
from labkit.workloads._sections import read_number

LOADS = {
    "Light 3D": ("reader",),
    "Light CAD": ("reader", "scooter", "shaft"),
    "SOLIDWORKS viewer": ("scooter", "shaft"),
    "Solid Edge viewer": ("reducer",),
}
"""Applications in the place of the document's, one after the other."""
BEGIN_SECONDS, START_SECONDS = 30.0, 2.5
THINK, GOOD = 0.3, 1.0


@dataclass(frozen=True)
class Viewing(Workload):
    """An office worker and CAD viewers on a desktop of Xvnc, drawn by the host's Mesa.

    A page is turned by keys, a model by the mouse; the last model turns by itself, as fast as it
    can be drawn. Mesa counts the frames that the host made, the client those that it saw.
    """

    roles = ("client", "server")
    loop = "closed"
    longest = 0.0
    """None: a desktop ends with its client."""
    measures = ("performance", "frames made", "share seen", "bandwidth", "response time",
                "start time")  # fmt: skip
    programs = ("Xvnc", "openscad", "glmark2")
    ours = ("Xvnc", "Xtigervnc", "openscad", "glmark2", "mupdf-gl", "python3")

    load: str = choice("Light CAD", LOADS)
    encoding: str = choice("tight", ENCODINGS)
    duration: float = knob(2.0, 1, 600)
    """Seconds of each application."""
    seed: int = 1

    @property
    def tools(self) -> Mapping[str, str]:
        """Xvnc, and what draws in it."""
        draws = {_desktop.APPLICATIONS[name].program for name in LOADS[self.load]}
        return {name: brings(name) for name in sorted({*draws, "Xvnc"})}

    only: ClassVar[Mapping[str, str]] = dict.fromkeys((*programs, "mupdf-gl"), "server")

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return len(LOADS[self.load]) * (self.duration + START_SECONDS)

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """Both need Python."""
        return no_python(hosts.values())

    def run(self, hosts: Mapping[str, Host]) -> str:
        """One application after the other; a line of JSON for each."""
        rows = (self._row(hosts, name) for name in LOADS[self.load])
        return "".join(f"{json.dumps(row)}\n" for row in rows)

    def _row(self, hosts: Mapping[str, Host], name: str) -> dict[str, Any]:
        application, server = _desktop.APPLICATIONS[name], hosts["server"]
        with _desktop.desktop(server, application, self.duration) as desktop:
            task = {
                "desktops": [desktop.place], "encoding": self.encoding, "users": 1,
                "seed": self.seed, "seconds": self.duration, "think": THINK, "good": GOOD,
                "begin": BEGIN_SECONDS, **application.used,
            }  # fmt: skip
            row = _desktop.look(hosts["client"], task, BEGIN_SECONDS + self.seconds)
            end = desktop.end()
        if reason := end["why"] or "; ".join(row["failed"]):
            raise HostError(f"{server.name}: the session of {name} failed", said=reason)
        return {"application": name, "made": end["frames"], "renderer": end["renderer"], **row}

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Frames a second, seen and made, over all applications of the load."""
        rows = [_desktop.trial(line) for line in text.splitlines()]
        if not rows:
            raise ResultsError("viewing: the run did not finish")
        total = {name: sum(read_number(row, name, "viewing") for row in rows)
                 for name in ("frames", "made", "bytes", "seconds")}  # fmt: skip
        if not total["made"] or not total["seconds"]:
            raise ResultsError("viewing: no frame was made", said=text)
        figures = {
            ("performance", "1/s"): total["frames"] / total["seconds"],
            ("frames made", "1/s"): total["made"] / total["seconds"],
            ("share seen", "share"): total["frames"] / total["made"],
            ("bandwidth", "kB/s"): total["bytes"] / total["seconds"] / 1e3,
        }
        samples = [Sample.single(*name, value) for name, value in figures.items()]
        for metric, key in (("response time", "times"), ("start time", "opened")):
            if times := [1e3 * float(time) for row in rows for time in row.get(key, ())]:
                samples.append(Sample(metric, "ms", np.array(times)))
        return samples

    @staticmethod
    def remark(text: str) -> str:
        """The name of what has drawn: a program of Mesa's, or the GPU of a host or its guest."""
        names = sorted({_desktop.trial(line).get("renderer", "") for line in text.splitlines()})
        renderers = " and ".join(name for name in names if name)
        return f"frames of a desktop were drawn by {renderers}" if renderers else ""
