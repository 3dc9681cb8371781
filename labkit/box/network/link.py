"""The wanted figures of a machine's data link, in words with units and in numbers."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from labkit.errors import BadInput

LINK_KEYS = {"rate", "delay", "jitter", "loss"}
LEAST_RATE, MOST_RATE = 1e5, 1e11
MOST_DELAY = 10.0
RATES = {"kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}
TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
NUMBER = r"(\d{1,9}(?:\.\d{1,9})?) ?"


@dataclass(frozen=True)
class LinkPlan:
    """The link of `role`; what is empty is as it comes. Each direction gets what is asked for.

    So a round trip takes twice the `delay` longer. `jitter` is the most that a delay differs from
    it, either way; `loss` hits each frame by itself; frames stay in their order.
    """

    role: str
    rate: str = ""
    delay: str = ""
    jitter: str = ""
    loss: str = ""

    def __post_init__(self) -> None:
        for key, value, low, high, legal in (
            ("rate", self.bits, LEAST_RATE, MOST_RATE, "100 kbit/s to 100 Gbit/s"),
            ("delay", self.seconds, 0, MOST_DELAY, "0 to 10 s"),
            ("jitter", self.spread, 0, self.seconds, "0 to the delay"),
            ("loss", self.lost, 0, 0.99, "0 to 99 %"),
        ):
            if key in self.asked and not low <= value <= high * (1 + 1e-9):
                problem = f"link of {self.role}: {key} {self.asked[key]!r} cannot be"
                raise BadInput(problem, hint=f"legal: {legal}")

    @property
    def bits(self) -> float:
        """The rate in bits per second; 0 is as fast as it goes."""
        return self._number("rate", RATES, "100 Mbit/s")

    @property
    def seconds(self) -> float:
        """The delay of one direction."""
        return self._number("delay", TIMES, "2.5 ms")

    @property
    def spread(self) -> float:
        """The jitter in seconds."""
        return self._number("jitter", TIMES, "200 us")

    @property
    def lost(self) -> float:
        """The part of all frames that is lost, 0 to 1."""
        return self._number("loss", {"%": 0.01}, "0.5 %")

    @property
    def shaped(self) -> bool:
        """Whether something stands in the way of frames."""
        return bool(self.bits or self.seconds or self.lost)

    @property
    def asked(self) -> Mapping[str, str]:
        """The values asked for, by key."""
        return {key: text for key, text in asdict(self).items() if text and key != "role"}

    def _number(self, key: str, units: Mapping[str, float], example: str) -> float:
        if not (text := self.asked.get(key)):
            return 0.0
        match = re.fullmatch(NUMBER + f"({'|'.join(map(re.escape, units))})", text, re.ASCII)
        if not match:
            problem = f"link of {self.role}: {text!r} is not a {key}"
            raise BadInput(problem, hint=f'write it as {key} = "{example}"')
        return float(match[1]) * units[match[2]]
