"""wrk and wrk2: the rates, and the latencies as far as `--latency` prints them."""

import re
from dataclasses import replace

from labkit.imports._reading import Patterns, found_in, insist, insist_ended
from labkit.workload import Sample

TIME = r"([\d.]+)(?P<by>us|ms|s|m|h)"
FIGURES: Patterns = {
    r"^Requests/sec: +([\d.]+)$": ("throughput", "1/s"),
    r"^Transfer/sec: +([\d.]+)(?P<by>B|KB|MB|GB)$": ("bandwidth", "MB/s"),
    rf"^ +Latency +{TIME} +\S+ +\S+ +\S+%$": ("latency mean", "ms"),
    rf"^ +Latency +\S+ +\S+ +{TIME} +\S+%$": ("latency max", "ms"),
    rf"^ +(\d+(?:\.\d*[1-9])?)\.?0*% +{TIME}$": ("latency p{}", "ms"),
}
ERRORS = re.compile(r"^ +Non-2xx or 3xx responses: (\d+)$|^ +Socket errors: (.+)$", re.MULTILINE)


def read(text: str) -> list[Sample]:
    """Requests and megabytes a second, latencies; answers that were errors are lost."""
    insist_ended(text, r"^Transfer/sec: +[\d.]+(B|KB|MB|GB)$", "wrk")
    losses = sum(int(word) for answers, sockets in ERRORS.findall(text)
                 for word in re.findall(r"\d+", f"{answers} {sockets}"))  # fmt: skip
    samples = insist(list(found_in(text, FIGURES)), "wrk")
    return [replace(s, lost=losses) if s.metric == "throughput" else s for s in samples]
