"""Is it the machine that was trusted, and not a clone with the same key?"""

from collections.abc import Iterator

from labkit.check import OK, WARNING, Check, Finding, Subject
from labkit.ssh import pins
from labkit.ssh.address import Address


def _look(place: Subject) -> Iterator[Finding]:
    if place.lab.emulated:  # hosts of a box are new each time, and so are their keys
        return
    at = getattr(place.host.transport, "at")  # noqa: B009
    assert isinstance(at, Address)
    name = place.target.known_as.first
    pins_of_host = [pin for _, pin in pins.read(pins.pin_file(at)) if pin.name == name]
    if not pins_of_host:
        text = "the machine's identity is not recorded, so a clone would go unnoticed"
        yield Finding(WARNING, text, fix=place.labkit("trust", place.role))
        return
    pins.check_pin(place.host)
    yield Finding(OK, f"{pins_of_host[-1].machine}, host name {pins_of_host[-1].hostname}")


check = Check("it is the machine that was trusted", _look, after="login", by_ssh=True)
