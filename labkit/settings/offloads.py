"""Work that a NIC or its driver does for the network stack: merging and cutting packets."""

from dataclasses import field
from typing import ClassVar

from labkit.settings._device import OfCard
from labkit.settings._values import switch

FEATURES = {
    "gro": "generic-receive-offload",
    "gso": "generic-segmentation-offload",
    "tso": "tcp-segmentation-offload",
    "lro": "large-receive-offload",
    "sg": "scatter-gather",
}


class Offloads(OfCard):
    """Offloads of the interface that carries test traffic; None leaves one as it is."""

    gro: bool | None = field(default=False, metadata=switch("gro=off", "gro=on"))
    gso: bool | None = field(default=None, metadata=switch("gso=off", "gso=on"))
    tso: bool | None = field(default=None, metadata=switch("tso=off", "tso=on"))
    lro: bool | None = field(default=None, metadata=switch("lro=off", "lro=on"))
    sg: bool | None = field(default=None, metadata=switch("sg=off", "sg=on"))
    role: str = field(default="guest", kw_only=True)  # type: ignore[misc]
    what, letter = "the offloads", "k"
    gaps: ClassVar = {"esxi": "VMkernel has them as AdvancedOption: /Net/UseHwTSO and the like"}

    @property
    def which(self) -> str:
        """Settings that name different offloads of one host are about different things."""
        return " ".join(self.names)

    def shows(self, name: str) -> str:
        """Their names are longer in what ethtool shows."""
        return f"s/^{FEATURES[name]}: /{name}=/p"
