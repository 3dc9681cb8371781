"""May we change settings there?"""

from collections.abc import Iterator

from labkit.check import OK, WARNING, Check, Finding, Subject

PROGRAMS = ("sudo",)


def _look(place: Subject) -> Iterator[Finding]:
    if place.greeting.user == "0":
        yield Finding(OK, "root")
        return
    user = place.target.user
    text = place.shown("sudo -n true 2>&1; true").strip()
    yield Finding(
        WARNING, f"{user} is not root: settings that need root are left out, and conditions with "
        "them", text and f"sudo: {text}",
        f'user = "root", or become = "sudo", in [hosts.{place.role}] of {place.lab.path}',
    )  # fmt: skip


check = Check("settings can be changed", _look, after="kind")
