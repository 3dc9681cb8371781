"""The reasons of slow requests: what kernels did while those were under way, and otherwise."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from labkit.errors import ResultsError
from labkit.lab import Lab
from labkit.probes import cpu_time
from labkit.statistics.percentiles import percentile
from labkit.workloads import _compiled
from labkit.workloads.ping import STAMP, Ping

PROGRAMS = ("cat", "sleep")

EVERY_MS = 10
SLOWEST = 99.0
"""Requests above this percentile are the slow ones."""
FIGURES = {
    "busy": "share", "softirq": "share", "stolen": "share",
    "interrupts": "1/s", "switches": "1/s", "running": "1",
}  # fmt: skip
"""Figures and their units; `running` are tasks that run or wait for a CPU."""
BUSY = ("user", "nice", "system", "irq", "softirq")
BOOT = "/proc/sys/kernel/random/boot_id"

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class KernelCounts:
    """One kernel's counts, and the hosts that it runs; a stretch ends at each of `ends`."""

    hosts: tuple[str, ...]
    ends: Values
    figures: Mapping[str, Values]

    @classmethod
    def of(cls, hosts: Sequence[str], text: str) -> KernelCounts:
        """Read what `watch_cpus` noted."""
        looks = [cpu_time.Moment.of(look) for look in cpu_time.moments(text)]
        if len(looks) < 3:
            raise ResultsError("the kernel was not watched to the end", said=text[-200:])
        days = np.array([look.day for look in looks])
        ticks = np.diff([np.sum([*look.ticks.values()], axis=0) for look in looks], axis=0)
        shares = ticks / np.maximum(ticks.sum(axis=1, keepdims=True), 1)
        share = dict(zip(cpu_time.COLUMNS, shares.T, strict=True))
        events = np.diff([(look.interrupts, look.switches) for look in looks], axis=0)
        interrupts, switches = (events / np.diff(days)[:, None]).T
        figures = {
            "busy": sum(share[name] for name in BUSY), "softirq": share["softirq"],
            "stolen": share["steal"], "interrupts": interrupts, "switches": switches,
            "running": np.array([float(look.running) for look in looks[1:]]),
        }  # fmt: skip
        return cls(tuple(hosts), days[1:], figures)

    def during(self, begin: float, end: float) -> KernelCounts:
        """The stretches of these seconds; all of them where its clock knows none of these."""
        inside = (self.ends > begin) & (self.ends < end + EVERY_MS / 1000)
        if not inside.any():
            return self
        figures = {name: values[inside] for name, values in self.figures.items()}
        return KernelCounts(self.hosts, self.ends[inside], figures)


@dataclass(frozen=True)
class SlowRequests:
    """Requests by the time that each was sent, and what kernels did meanwhile."""

    sent: Values
    took: Values
    """Microseconds."""
    kernels: tuple[KernelCounts, ...]

    @classmethod
    def of(cls, ping: str, kernels: Mapping[str, str]) -> SlowRequests:
        """Read a run of ping, and by the names of its hosts what each kernel did."""
        answers = [(float(a["at"]), float(a["ms"])) for a in STAMP.finditer(ping)]
        if len(answers) < 2:
            raise ResultsError("ping had fewer than two answers", said=ping[-200:])
        at, ms = np.array(answers).T
        sent = at - ms / 1000
        # Kernels are watched for longer than is asked, and idle before and after it.
        counts = (
            KernelCounts.of(hosts.split(","), text).during(sent.min(), at.max())
            for hosts, text in kernels.items()
        )
        return cls(sent, ms * 1000, tuple(counts))

    @cached_property
    def limit(self) -> float:
        """Microseconds above which a request is slow."""
        return percentile(self.took, SLOWEST)

    def slow(self, kernel: KernelCounts) -> npt.NDArray[np.bool_]:
        """The stretches of a kernel in which a slow request was under way."""
        begins = np.concatenate([[kernel.ends[0] - EVERY_MS / 1000], kernel.ends[:-1]])
        late = self.took > self.limit
        begin, end = self.sent[late], self.sent[late] + self.took[late] / 1e6
        under_way = (begins[:, None] < end) & (kernel.ends[:, None] > begin)
        return np.asarray(under_way.any(axis=1), dtype=np.bool_)

    def rows(self) -> list[dict[str, Any]]:
        """The means of each figure while slow requests were under way, and otherwise."""
        return [
            {"hosts": " and ".join(kernel.hosts), "figure": name, "unit": FIGURES[name],
             "slow": float(values[slow].mean()), "otherwise": float(values[~slow].mean())}
            for kernel in self.kernels
            if (slow := self.slow(kernel)).any() and not slow.all()
            for name, values in kernel.figures.items()
        ]  # fmt: skip


def watch(lab: Lab, load: Ping) -> tuple[str, dict[str, str]]:
    """Ping while each kernel is watched; the texts of both, for `SlowRequests.of`."""
    hosts = {role: lab.host(role) for role in load.roles}
    program = _compiled.compiled("watch_cpus", "-static")
    # On a busy machine ping begins late and sends late.
    seconds = ceil(1.5 * load.seconds + 2)
    kernels: dict[str, list[str]] = {}  # hosts of a box share one: it is watched once
    for role, host in hosts.items():
        kernels.setdefault(host.check("cat", BOOT).strip(), []).append(role)
    with ExitStack() as lending, ThreadPoolExecutor(len(kernels)) as pool:
        watching = {}
        for roles in kernels.values():
            host = hosts[roles[0]]
            at = lending.enter_context(_compiled.lent(host, watch_cpus=program))
            words = (at["watch_cpus"], "why", str(EVERY_MS), "sleep", str(seconds))
            job = pool.submit(host.check, *words, seconds=seconds + 60)
            watching[",".join(roles)] = job
        time.sleep(0.3)  # they have begun before the first request
        text = load.run(hosts)
        return text, {roles: job.result() for roles, job in watching.items()}
