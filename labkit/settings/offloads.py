"""What a NIC or its driver does for the network stack: merging and cutting packets."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from labkit.errors import BadInput, HostError
from labkit.host import Host
from labkit.setting import Setting

FEATURES = {
    "gro": "generic-receive-offload",
    "gso": "generic-segmentation-offload",
    "tso": "tcp-segmentation-offload",
    "lro": "large-receive-offload",
    "sg": "scatter-gather",
}


@dataclass(frozen=True)
class Offloads(Setting):
    """Offloads of the interface that carries test traffic; None leaves one as it is."""

    gro: bool | None = False
    gso: bool | None = None
    tso: bool | None = None
    lro: bool | None = None
    sg: bool | None = None
    role: str = "guest"  # type: ignore[misc]

    def __post_init__(self) -> None:
        if not self._asked():
            raise BadInput("no offload is named", hint=f"known: {', '.join(FEATURES)}")

    @property
    def thing(self) -> str:
        """Settings that name different offloads of one host are about different things."""
        return f"{super().thing}: {' '.join(self._asked())}"

    @property
    def wanted(self) -> str:
        """The named offloads, as `read` gives them."""
        return _value(self._asked())

    def read(self, host: Host) -> str:
        """The named offloads as they are."""
        found = _features(host)
        return _value({short: bool(found[FEATURES[short]]["active"]) for short in self._asked()})

    def write(self, host: Host, value: str) -> None:
        """Switch the named offloads."""
        words = [word for pair in value.split() for word in pair.split("=")]
        host.check("ethtool", "-K", _interface(host), *words)

    def refusal(self, host: Host) -> str:
        """Some drivers fix an offload; then it can only stay as it is."""
        found = _features(host)
        for short, on in self._asked().items():
            feature = found.get(FEATURES[short], {"fixed": True, "active": None})
            if feature["fixed"] and feature["active"] is not on:
                return f"{host.name}: the driver of {_interface(host)} has no choice of {short}"
        return ""

    def _asked(self) -> dict[str, bool]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {short: values[short] for short in FEATURES if values[short] is not None}


def _interface(host: Host) -> str:
    if not host.interface:
        raise BadInput(
            f"{host.name}: which interface carries test traffic is not known",
            hint='add interface = "..." to its table in lab.toml',
        )
    return host.interface


def _features(host: Host) -> dict[str, Any]:
    said = host.check("ethtool", "--json", "-k", _interface(host))
    try:
        features: dict[str, Any] = json.loads(said)[0]
    except (ValueError, LookupError):
        raise HostError(f"{host.name}: ethtool's answer cannot be read", said=said) from None
    return features


def _value(features: dict[str, bool]) -> str:
    return " ".join(f"{short}={'on' if on else 'off'}" for short, on in features.items())
