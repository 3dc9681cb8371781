"""Containers that do nothing: from the command to its end."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from labkit import Sample, Workload
from labkit.errors import ResultsError
from labkit.host import Host

SCRIPT = Path(__file__).with_suffix(".sh").read_text("utf-8")
PACKAGES = {"crun": "crun", "runc": "runc", "runsc": "runsc", "podman": "podman",
            "docker": "docker.io"}  # fmt: skip


@dataclass(frozen=True)
class ContainerStart(Workload):
    """`times` containers of `true`, one after another, by one `runtime`.

    All of it is in namespaces of its own, Docker's daemon too, and goes with the last process.
    """

    roles: ClassVar[tuple[str, ...]] = ("server",)
    loop: ClassVar[str] = ""
    programs: ClassVar[tuple[str, ...]] = tuple(PACKAGES)
    measures: ClassVar[tuple[str, ...]] = ("time taken",)

    runtime: str = "runc"
    times: int = 20

    @property
    def tools(self) -> Mapping[str, str]:
        """The program that few hosts have."""
        return {self.runtime: PACKAGES[self.runtime]}

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return 0.3 * self.times

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Start and end them."""
        alone = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
        words = ("bash", "-c", SCRIPT, "start", self.runtime, str(self.times))
        return hosts["server"].check(*alone, *words, seconds=300)

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """The time of each."""
        times = [int(took) / 1e6 for took in re.findall(r"^took (\d+)$", text, re.MULTILINE)]
        if not times:
            raise ResultsError("no time of a container is in this text", said=text[-300:])
        return [Sample("time taken", "s", np.array(times))]
