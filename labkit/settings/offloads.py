"""Work that a NIC or its driver does for the network stack: merging and cutting packets."""

from dataclasses import dataclass, fields

from labkit.errors import BadInput, Impossible
from labkit.host import Host
from labkit.setting import Setting, Way
from labkit.settings._nic import NIC, nic, of_nic
from labkit.settings._ways import ROOT, picked

PROGRAMS = ("ethtool",)

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
        super().__post_init__()
        if not self._wishes():
            raise BadInput("name an offload", hint=f"known: {', '.join(FEATURES)}")

    @property
    def thing(self) -> str:
        """Settings that name different offloads of one host are about different things."""
        return f"{super().thing}: {' '.join(self._wishes())}"

    @property
    def wanted(self) -> str:
        """The named offloads, each on or off."""
        return _value({short: _word(on) for short, on in self._wishes().items()})

    def way(self, kind: str, host: Host) -> Way:
        """Some drivers fix an offload; then it can only stay as it is."""
        if kind not in ("box", "linux"):
            raise Impossible(f"offloads need ethtool, which {kind} hosts lack")
        features, driver = self._wishes(), f"{host.name}: the driver of {nic(host)}"
        look = ";".join(f"s/^{FEATURES[short]}: /{short}=/p" for short in features)
        return of_nic(host, Way(
            picked(look, "ethtool", "-k", NIC),
            lambda value: (("ethtool", "-K", NIC, *value.replace("=", " ").split()),),
            lambda text: _value({short: _states(text).get(short, "") for short in features}),
            lambda text: _find_fixed(features, text, driver),
            needs=ROOT, legal=f"{', '.join(FEATURES)}: on or off",
        ))  # fmt: skip

    def _wishes(self) -> dict[str, bool]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {short: values[short] for short in FEATURES if values[short] is not None}


# What `reads` printed by short name: on, off, or one of these and [fixed].
def _states(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {short: state for short, _, state in pairs}


def _find_fixed(switches: dict[str, bool], text: str, driver: str) -> str:
    states = _states(text)
    for short, on in switches.items():
        state, *marks = states.get(short, "").split() or ["", "missing"]
        if marks == ["missing"] or (marks == ["[fixed]"] and state != _word(on)):
            return f"{driver} has no choice of {short}"
    return ""


def _value(states: dict[str, str]) -> str:
    return " ".join(f"{short}={state.split(' ')[0]}" for short, state in states.items())


def _word(on: bool) -> str:
    return "on" if on else "off"
