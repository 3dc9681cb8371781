"""The offset of a host's clock from ours, with a bound, so that times of hosts can be compared."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic, time

from labkit.errors import HostError
from labkit.files import Pipe

TIMES = 5
"""The readings taken of a clock; the one with the shortest way there and back counts."""
LONGEST_LINE = 200
_TIME = re.compile(r"(\d{1,12})(?:\.(\d{1,9}))?")


@dataclass(frozen=True)
class ClockReading:
    """A host's clock beside ours; its true offset is within `bound` of `offset`, in seconds."""

    host: str
    controller_utc: str
    host_utc: str
    offset: float
    round_trip: float
    resolution: float = 0.0

    @property
    def bound(self) -> float:
        """Half the way there and back, for no one can say how long each way took."""
        return self.round_trip / 2 + self.resolution


def line_of(pipe: Pipe, name: str) -> str:
    """The next line of a command that answers line by line."""
    content = b""
    while not content.endswith(b"\n"):
        part = pipe.recv(1)
        if not part or len(content) > LONGEST_LINE:
            _, complaint = pipe.ended() if not part else (0, "")
            raise HostError(
                f"{name}: what was to answer a line at a time has ended", said=complaint
            )
        content += part
    return content.decode("ascii", "replace").strip()


def reading(name: str, ask: Callable[[], str]) -> ClockReading:
    """The best of some readings; `ask` has the host print its time, in seconds since 1970."""
    return min((_read(name, ask) for _ in range(TIMES)), key=lambda answer: answer.round_trip)


def _read(name: str, ask: Callable[[], str]) -> ClockReading:
    start, at = monotonic(), time()
    text = ask()
    seconds_taken = monotonic() - start
    host, middle = seconds(name, text), at + seconds_taken / 2
    return ClockReading(
        name, utc(middle), utc(host), host - middle, seconds_taken, _resolution(name, text)
    )  # fmt: skip


def seconds(name: str, text: str) -> float:
    """The middle of the times that what a host prints may stand for."""
    return float(_match(name, text)[0]) + _resolution(name, text)


# A clock cuts off what is finer than its last digit: so it may be that much later, and is half of
# it on the average. Few hosts print nanoseconds.
def _resolution(name: str, text: str) -> float:
    return 10.0 ** -len(_match(name, text)[2] or "") / 2


# BusyBox's date knows no fractions, and repeats the letters that should become one.
def _match(name: str, text: str) -> re.Match[str]:
    match = _TIME.match(text)
    if not match:
        raise HostError(f"{name}: its clock says {text!r}")
    return match


def utc(seconds: float) -> str:
    """A time for a record, to the microsecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
