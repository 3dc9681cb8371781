"""Hosts of the benchmarks: sshd of this machine, as near or as far as one wants them."""

import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sshd import serving
from wire import delayed


@contextmanager
def addresses(count, round_trip=0.0):
    """A folder, and the addresses of so many sshd; a round trip to each takes so many seconds."""
    with ExitStack() as stack:
        home, found = Path(stack.enter_context(tempfile.TemporaryDirectory())), []
        for number in range(count):
            (home / f"{number}").mkdir()
            server = stack.enter_context(serving(home / f"{number}"))
            far = stack.enter_context(delayed(server.port, round_trip)) if round_trip else 0
            found.append(server.behind(far or server.port))
        yield home, found


def as_json(address):
    """What a peer is told of it."""
    return {"port": address.port, "user": address.user, "key": address.key,
            "known_hosts": address.known_hosts[0]}  # fmt: skip
