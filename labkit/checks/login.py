"""Does the host let us in, and does it run a command?"""

from collections.abc import Iterator

from labkit.check import COMMAND_SECONDS, FAILURE, OK, Check, Finding, Subject
from labkit.errors import LoginRefused


def _look(place: Subject) -> Iterator[Finding]:
    try:
        place.host.check("true", seconds=COMMAND_SECONDS)
    except LoginRefused as error:
        alternative = f"   # or the right user = ... in [hosts.{place.role}] of {place.lab.path}"
        yield Finding(FAILURE, error.what, error.said or error.hint, _copy_id(place) + alternative)
        return
    if place.here:
        yield Finding(OK, "it is this machine: commands run here, without SSH")
        return
    took = 1000 * place.host.round_trip()
    at = place.host.transport.reached_at
    address = f" at {at}" if at != place.target.address else ""
    yield Finding(OK, f"{place.target.user} may log in{address}; {took:.1f} ms there and back")


def _copy_id(place: Subject) -> str:
    target, words = place.target, ["ssh-copy-id"]
    if target.identities and target.only:
        words += ["-i", target.identities[0]]
    if target.jump is not None:
        words += ["-o", f"ProxyJump={target.jump.user}@{target.jump.address}:{target.jump.port}"]
    return " ".join([*words, "-p", str(target.port), f"{target.user}@{target.address}"])


check = Check("the host accepts our key", _look, after="key")
