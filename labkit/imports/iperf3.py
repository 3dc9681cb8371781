"""iperf3, as `iperf3 --json` writes it: throughput of each interval and of the whole."""

from __future__ import annotations

from labkit.errors import ResultsError
from labkit.imports._reading import at, insist, json_of, number, sample
from labkit.workload import Sample

EXTRAS = (("retransmits", ""), ("jitter_ms", "ms"), ("lost_packets", ""))


def read(text: str) -> list[Sample]:
    """Throughput as received, per interval too; retransmits of TCP; jitter and loss of UDP."""
    whole = json_of(text, "iperf3")
    if "error" in whole:
        raise ResultsError("iperf3 ended with an error", said=str(whole["error"]))
    end = at(whole, "end")
    total = end.get("sum_received") or at(end, "sum")
    found = [sample("throughput", "Mbit/s", _rate(total))]
    sums = [at(interval, "sum") for interval in at(whole, "intervals")]
    if parts := [_rate(one) for one in sums if not one.get("omitted")]:
        found.append(sample("throughput of an interval", "Mbit/s", parts))
    for name, unit in EXTRAS:
        for side in (end.get("sum_sent"), end.get("sum")):
            if isinstance(side, dict) and name in side:
                metric = name.removesuffix("_ms").replace("_", " ")
                found.append(sample(metric, unit, number(side[name], name)))
                break
    return insist(found, "iperf3")


def _rate(part: object) -> float:
    return number(at(part, "bits_per_second"), "bits_per_second") / 1e6
