"""Does the control address of a host mean an address?"""

import socket
from collections.abc import Iterator

from labkit.check import FAILURE, OK, Check, Finding, Subject
from labkit.ssh.way import addresses


def _look(place: Subject) -> Iterator[Finding]:
    target = place.target
    first = target
    while first.jump is not None:
        first = first.jump
    if first.proxy:
        yield Finding(OK, f"{target}, through `{first.proxy}`")
        return
    try:
        answers = addresses(first.address, first.port, socket.AF_UNSPEC, first.seconds)
    except (OSError, UnicodeError) as error:
        yield Finding(
            FAILURE, f"{first.address!r} does not resolve to an address", str(error),
            f'put the right control = "..." into [hosts.{place.role}] of {place.lab.path}',
        )  # fmt: skip
        return
    text = ", ".join(dict.fromkeys(str(answer[4][0]) for answer in answers))
    way = "" if first is target else f", through {first.address}"
    yield Finding(OK, f"{target}{way}: {text}")


check = Check("the control address resolves", _look, by_ssh=True)
