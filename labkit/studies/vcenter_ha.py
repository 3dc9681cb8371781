"""The host of a management server fails: how long nobody can manage, and what that time is."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from labkit.condition import Condition
from labkit.event import Event
from labkit.events.host_failure import HostFailure, ServerReboot
from labkit.events.network_hiccup import NetworkHiccup
from labkit.results import Results
from labkit.settings.availability import FailureDetection
from labkit.statistics.pooled import Blocks
from labkit.study import OfDocument, Study
from labkit.workloads.management import Management

INVENTORIES = {"small": (1, 1), "medium": (32, 4000), "large": (64, 6000)}
"""Hosts and machines of each."""
STEPS = ("detection", "fencing", "restart", "boot", "loading")
"""What an outage is made of, in order; a reboot has the last two."""
TOKENS, USUAL = (500, 1000, 2000, 4000), 1000
"""Milliseconds of silence after which a host is lost."""
HICCUP = 3.0
SET = "here seconds of boot stand for minutes, and the time to detect is a setting of ours"


def _conditions() -> Iterator[Condition]:
    for size, (hosts, vms) in INVENTORIES.items():
        of = f"{hosts:,} host{'s' * (hosts > 1)} and {vms:,} VM{'s' * (vms > 1)}"
        yield _condition(f"HA [inventory={size}]", size, HostFailure(after=1.0, settle=0.5),
                         f"the server's host loses its power: {of}",
                         "all processes of a box host are killed and its link is cut; "
                         "Pacemaker starts the server on the other host")  # fmt: skip
        yield _condition(
            f"Reboot [inventory={size}]", size, ServerReboot(after=1.0, settle=0.5),
            f"the server reboots on its host: {of}",
            "the server ends and starts again; Pacemaker has nothing to do",
        )  # fmt: skip


def _silence() -> Iterator[Condition]:
    for ms in TOKENS:
        settings = [FailureDetection(ms, role=role) for role in ("server", "server2")]
        here = f"a host is lost after {ms / 1000:g} s of silence"
        if ms != USUAL:
            yield _condition(f"HA [token={ms}ms]", "small", HostFailure(after=1.0, settle=0.5),
                             "the host loses its power, and another time-out notices it", here,
                             *settings)  # fmt: skip
        event = NetworkHiccup(after=1.0, settle=0.5, length=HICCUP)
        yield _condition(f"Hiccup [token={ms}ms]", "small", event,
                         f"the host's network fails for {HICCUP:g} s; the host lives", here,
                         *settings)  # fmt: skip


def _condition(
    name: str, size: str, event: Event, means: str, here: str, *settings: FailureDetection
) -> Condition:
    hosts, vms = INVENTORIES[size]
    return Condition(name, means, here, settings, knobs={"hosts": hosts, "vms": vms},
                     in_guest=False, events=(event,))  # fmt: skip


def time_outs(study: Study, results: Results) -> dict[float, tuple[float, float]]:
    """By time-out in seconds: the seconds to detect a failure, the share of hiccups taken for one.

    What was not measured is not a number.
    """
    measured, nothing = study.measured(results), float("nan")
    usual = ["detection_time: HA [inventory=small]"] if study.workload == Management() else []
    return {
        ms / 1000: (
            _mean(measured, [f"detection_time: HA [token={ms}ms]", *(usual * (ms == USUAL))],
                  nothing),
            _mean(measured, [f"false_failovers: Hiccup [token={ms}ms]"], nothing),
        )
        for ms in TOKENS
    }  # fmt: skip


def steps(study: Study, results: Results) -> dict[str, list[float]]:
    """Mean seconds of each step under each condition; 0 for those that it does not have."""
    measured = study.measured(results)
    means = {
        condition.name: [_mean(measured, [f"{step}_time: {condition.name}"], 0.0) for step in STEPS]
        for condition in study.conditions
    }
    return {name: seconds for name, seconds in means.items() if any(seconds)}


def _mean(measured: Mapping[str, Blocks], names: Sequence[str], nothing: float) -> float:
    values = [block.mean() for name in names for block in measured.get(name, {}).values()]
    return float(np.mean(values)) if values else nothing


study = Study(
    name="vcenter_ha",
    title="A management server fails over: who notices, and for how long",
    question="How long can nobody manage a data centre whose management server's host fails, and "
    "does a larger inventory make it longer?",
    source="Failover Time for vCenter Server 6.0 Protected by vSphere HA",
    workload=Management(), quick={"repeats": 1, "token_ms": 1000},
    few=("HA [inventory=small]", "Reboot [inventory=small]"),
    metric="failover downtime", unit="s", topology="failover",
    conditions=(*_conditions(), *_silence()),
    extra=tuple(one.name for one in _silence()),
    document=OfDocument({"part": 1}),
    untold={"vcenter-ha-03": SET},
)  # fmt: skip
