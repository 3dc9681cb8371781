"""Availability: when a cluster takes a silent host for dead, and starts its guests elsewhere."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from labkit.setting import Details, Way
from labkit.settings._values import amount
from labkit.settings._ways import ROOT, OnHost, by, script

PROGRAMS = ("corosync-cmapctl",)

# A key that is not there leaves it to the cluster's own default, which `runtime` shows.
SHOWN = """\
if said=$(corosync-cmapctl -g totem.token 2>/dev/null); then echo "set ${said##* }"
else said=$(corosync-cmapctl -g runtime.config.totem.token) && echo "default ${said##* }"; fi"""
TOLD = """\
if [ "$1" ]; then corosync-cmapctl -s totem.token u32 "$1"
else corosync-cmapctl -d totem.token; fi"""


def _show(text: str) -> str:
    how, ms = text.split()
    return f"{ms} ms" if how == "set" else f"default of {ms} ms"


def _ms(value: str) -> str:
    return "" if value.startswith("default") else value.removesuffix(" ms")


class FailureDetection(OnHost):
    """Milliseconds that a host may be silent before its cluster takes it for dead.

    All hosts of the cluster need the same; starting the guests elsewhere takes its own time.
    """

    ms: int = field(metadata=amount("the silence", 100, 600_000, "ms", "{} ms".format))
    elsewhere: ClassVar = {
        "esxi": "vSphere HA is of the cluster, which vCenter keeps: das.config.fdm... options",
        "box": "hosts of the box make no cluster",
    }
    # Corosync's token, until it starts again.
    on_linux = by(
        Way(
            script(SHOWN), lambda value: (script(TOLD, _ms(value)),), _show, needs=ROOT,
            more=Details(settle_seconds=2),
        )
    )  # fmt: skip
