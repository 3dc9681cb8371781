"""Choosing two subnets that nothing on this machine uses."""

import json
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Network
from typing import Any

from labkit.box.folder import BOXES
from labkit.box.layout import BENCHMARKING, PAIRS, control_net, data_net
from labkit.box.processes import run
from labkit.errors import BoxError

PROGRAMS = ("ip",)


def free_pair() -> int:
    """The number of a pair of subnets that is free; the caller keeps other boxes from choosing."""
    used, promises = list(_in_use()), set(_promises())
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
def _promises() -> Iterable[int]:
    for file in BOXES.glob("*/box.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            yield int(json.loads(file.read_text())["pair"])


# A route to everything is no sign that the range is used.
def _in_use() -> Iterable[IPv4Network]:
    routes = [route.get("dst", "") for route in _ip("route", "show", "table", "all")]
    addresses = [at for link in _ip("addr") for at in link.get("addr_info", [])]
    for text in (*routes, *(f"{at['local']}/{at['prefixlen']}" for at in addresses)):
        with suppress(ValueError):
            net = IPv4Network(text, strict=False)
            if net.overlaps(BENCHMARKING) and not net.supernet_of(BENCHMARKING):
                yield net


def _ip(*words: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(run(["ip", "-4", "-j", *words]) or "[]")
    return answer
