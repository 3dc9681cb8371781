"""Results that no lab measured: round trips drawn from known distributions, as ping prints them."""

from pathlib import Path

import numpy as np

from labkit.results import Results, Run
from labkit.running.open_lab import with_load
from labkit.study import Study
from labkit.workload import row

# Median in us, and how far the values scatter (the deviation of their logarithm).
SHAPES = {
    "Native": (32, 0.15), "VM-Default": (95, 0.45), "VM-SRIOV": (60, 0.35),
    "VM-Latency-SRIOV": (48, 0.2),
}  # fmt: skip
REFUSED = dict.fromkeys(
    ("VM-Default [vms=4]", "VM-SRIOV [vms=4]", "VM-Latency-SRIOV [vms=4]"), "no such guests"
)
LAB = {
    "name": "a lab that never was",
    "tier": "test",
    "accelerator": "made-up numbers",
    "hosts": {
        role: {"kernel": "Linux 6.1", "cpus": "1", "cpu": "<b>imagined</b>"}
        for role in ("client", "server", "guest")
    },
}


def values(condition: str, block: int, count: int = 3000):
    """One run's round trips in us, the same for the same condition and block."""
    median, scatter = SHAPES[condition]
    random = np.random.default_rng([len(condition), block, count])
    level = median * np.exp(random.normal(0, 0.03))
    rare = np.where(random.random(count) < 0.002, random.uniform(3, 30, count), 1)
    return np.round(level * np.exp(random.normal(0, scatter, count)) * rare, 0)


def measured(repeats: int = 5, count: int = 3000) -> dict[str, dict[int, np.ndarray]]:
    """Blocks by condition, as a study gives them."""
    return {c: {b: values(c, b, count) for b in range(1, repeats + 1)} for c in SHAPES}


def ping_text(microseconds) -> str:
    """What ping would have printed."""
    answers = [
        f"[1.0] 264 bytes from 198.18.0.2: icmp_seq={n} ttl=64 time={us / 1000:.3f} ms"
        for n, us in enumerate(microseconds, 1)
    ]
    sent = len(answers)
    end = f"{sent} packets transmitted, {sent} received, 0% packet loss, time {sent}ms"
    head = "PING 198.18.0.2 (198.18.0.2) 256(284) bytes of data."
    return "\n".join([head, *answers, "", "--- 198.18.0.2 ping statistics ---", end, ""])


def write_results(path: Path, study: Study, repeats: int = 5, count: int = 3000) -> Results:
    """A folder of results of a whole study, as if it had run."""
    asked = with_load(study, count=count).asked("box", 1)
    lab = {"label": "synthetic", "lab": LAB, "refused": REFUSED}
    results = Results.begin(path, {**asked, **lab})
    order = 0
    for block in range(1, repeats + 1):
        for condition in SHAPES:
            order += 1
            text = ping_text(values(condition, block, count))
            rows = tuple(row(sample) for sample in study.workload.parse(text))
            run = Run(condition, block, order, "finished", settings={"GuestNic": "x"}, rows=rows)
            results.keep(run, {"ping.txt": text})
    return results
