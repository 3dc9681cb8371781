"""What kind of host is it: linux, kvm, docker, esxi, box, or several of them?"""

from collections.abc import Iterator

from labkit.check import FAILURE, OK, Check, Finding, Subject


def _look(place: Subject) -> Iterator[Finding]:
    kinds = place.kinds
    if not kinds:
        system = place.shown("uname -a")
        yield Finding(
            FAILURE, "neither Linux nor ESXi: labkit has no settings for it", system,
            "see notebooks/docs/settings.md for the kinds of host",
        )  # fmt: skip
        return
    yield Finding(OK, ", ".join(kinds))


check = Check("labkit knows this kind of host", _look, after="login")
