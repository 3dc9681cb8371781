"""iperf3, as `iperf3 --json` writes it: throughput of each interval and of the whole."""

from collections.abc import Mapping
from typing import Any

from labkit.errors import ResultsError
from labkit.imports._reading import at, insist, json_of, number, sample
from labkit.workload import Sample

SUMS = ("sum_received", "sum")
EXTRAS = (("retransmits", "", ("sum_sent",)), ("jitter_ms", "ms", SUMS), ("lost_packets", "", SUMS))
"""Metrics by the sums that know them. Since iperf 3.11, sums sent have jitter and loss, of 0."""


def read(text: str) -> list[Sample]:
    """Throughput received, each way and per interval; TCP's retransmits, UDP's jitter and loss."""
    document = json_of(text, "iperf3")
    if "error" in document:
        raise ResultsError("iperf3 ended with an error", said=str(document["error"]))
    samples = _way(document, "", "")
    # What `--bidir` sent the other way at the same time.
    if "sum_received_bidir_reverse" in at(document, "end"):
        samples += _way(document, "_bidir_reverse", " back")
    return insist(samples, "iperf3")


def _way(document: Mapping[str, Any], suffix: str, label: str) -> list[Sample]:
    end = at(document, "end")
    came = end.get(f"sum_received{suffix}")
    if came:
        rate = _rate(came)
    else:
        # Before iperf 3.11 the one sum of UDP has the rate sent, of packets of one size, beside the
        # loss.
        total = at(end, f"sum{suffix}")
        packets, losses = (number(total.get(name, 0), name) for name in ("packets", "lost_packets"))
        rate = _rate(total) * (1 - losses / packets if packets else 1)
    samples = [sample(f"throughput{label}", "Mbit/s", rate)]
    sums = [at(interval, f"sum{suffix}") for interval in at(document, "intervals")]
    if parts := [_rate(total) for total in sums if not total.get("omitted")]:
        samples.append(sample(f"throughput{label} of an interval", "Mbit/s", parts))
    for name, unit, sides in EXTRAS:
        for side in (end.get(f"{side}{suffix}") for side in sides):
            if isinstance(side, dict) and name in side:
                metric = name.removesuffix("_ms").replace("_", " ") + label
                samples.append(sample(metric, unit, number(side[name], name)))
                break
    return samples


def _rate(part: object) -> float:
    return number(at(part, "bits_per_second"), "bits_per_second") / 1e6
