"""Choosing two subnets that nothing on this machine uses."""

import json
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Network
from typing import Any

from labkit.box.cgroup import ENVIRONMENT
from labkit.box.folder import BOXES
from labkit.box.layout import BENCHMARKING, PAIRS, control_net, data_net
from labkit.errors import BoxError

PROGRAMS = ("ip",)


def free_pair() -> int:
    """The number of a pair of subnets that is free; the caller keeps other boxes from choosing."""
    used, promises = list(_in_use()), _promises()
    for pair in range(PAIRS):
        nets = (control_net(pair), data_net(pair))
        if pair not in promises and not any(net.overlaps(a) for net in nets for a in used):
            return pair
    raise BoxError(
        f"no free subnet for the box in {BENCHMARKING}",
        said=", ".join(str(net) for net in used),
        hint="`ip route` shows who uses that range",
    )


# A box of another version of labkit may be made of what this one does not know.
def _promises() -> set[int]:
    pairs: set[int] = set()
    for file in BOXES.glob("*/box.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            pairs.add(int(json.loads(file.read_text())["pair"]))
    return pairs


def _in_use() -> Iterable[IPv4Network]:
    routes = _ip("route", "show", "table", "all")
    yield from _networks(route.get("dst", "") for route in routes)
    yield from _networks(
        f"{at['local']}/{at['prefixlen']}"
        for link in _ip("addr")
        for at in link.get("addr_info", [])
    )


# A route to everything is no sign that the range is used.
def _networks(texts: Iterable[str]) -> Iterable[IPv4Network]:
    for text in texts:
        with suppress(ValueError):
            net = IPv4Network(text, strict=False)
            if net.overlaps(BENCHMARKING) and not net.supernet_of(BENCHMARKING):
                yield net


def _ip(*words: str) -> list[dict[str, Any]]:
    result = subprocess.run(
        ["ip", "-4", "-j", *words], capture_output=True, text=True, env=ENVIRONMENT
    )
    if result.returncode:
        raise BoxError(f"`ip {' '.join(words)}` failed", said=result.stderr)
    answer: list[dict[str, Any]] = json.loads(result.stdout or "[]")
    return answer
