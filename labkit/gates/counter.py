"""The counts of a host, printed again and again by one program that stays there.

To start the few programs that `gate.collect` needs takes a guest without hardware support longer
than to read everything. Both print the same lines.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from labkit.errors import HostError
from labkit.files import Pipe
from labkit.fleet.together import line_of
from labkit.gates import gate
from labkit.host import Host
from labkit.machine.scripts import beside

PROGRAMS = ("perl",)

PATIENCE_SECONDS = 30.0
MOST_BYTES = 16 << 20
# Asked by a line, it says how many bytes it will say, and says them. Files of /proc have no size,
# so each is read to its end; that of a process comes whole by one read. A guest pays for each call
# of its kernel, so files have no buffer, and what NICs count is asked for in one go (rtnetlink(7),
# struct rtnl_link_stats64 in linux/if_link.h): each file of it would take as long as all else.
PERL = beside(__file__, "counter.pl")
SHELL = beside(__file__, "counter.sh")
PERL_OR_SHELL = f'! perl -MTime::HiRes -e 1 2>/dev/null || exec perl -e "$2"\n{SHELL}'
WORDS = ("sh", "-c", PERL_OR_SHELL, "labkit", gate.SCRIPT, PERL)


@dataclass
class Counters:
    """One such program on each host that has been asked; a host is asked by one at a time."""

    _there: dict[Host, tuple[ExitStack, Pipe]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def collect(self, host: Host) -> str:
        """The host's counts; asked for again if the program has ended, as with its machine."""
        if host in self._there:
            try:
                return self._ask(host)
            except HostError:
                self._forget(host)
        with ExitStack() as stack:
            pipe = stack.enter_context(host.raw(*WORDS))
            pipe.patience = PATIENCE_SECONDS
            with self._lock:
                self._there[host] = stack.pop_all(), pipe
        return self._ask(host)

    def _ask(self, host: Host) -> str:
        _, pipe = self._there[host]
        pipe.send(b"\n")
        size = line_of(pipe, host.name)
        if not (size.isdigit() and int(size) < MOST_BYTES):
            raise HostError(f"the counter on {host.name} sent {size!r}")
        content = bytearray()
        while len(content) < int(size):
            part = pipe.recv(int(size) - len(content))
            if not part:
                raise HostError(f"the counter on {host.name} stopped")
            content += part
        return content.decode("utf-8", "replace")

    def _forget(self, host: Host) -> None:
        with self._lock:
            stack, _ = self._there.pop(host)
        stack.close()

    def close(self) -> None:
        """End all of them."""
        for host in list(self._there):
            self._forget(host)


@contextmanager
def counting() -> Iterator[Counters]:
    """Counters until we leave."""
    counters = Counters()
    try:
        yield counters
    finally:
        counters.close()
