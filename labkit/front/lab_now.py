"""The lab as it is now: who answers, who holds a host, what is not put back; it puts that back."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from labkit import box
from labkit.changes.journal import hello
from labkit.changes.restore import restore
from labkit.errors import LabkitError
from labkit.host import Host
from labkit.lab import Lab
from labkit.machine.places import HOME
from labkit.machine.stopping import together
from labkit.pages.lab_panel import look

NO_LAB = "no lab"
FILE, USUAL = "lab.toml", "box lab"


@dataclass(frozen=True)
class HostNow:
    """One host's answer now; `trouble` is the reason why its journal could not be read."""

    role: str
    address: str
    state: str
    kernel: str = ""
    cpus: str = ""
    held: str = ""
    unfinished: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def answers(self) -> bool:
        """Whether it was reached."""
        return self.state == "answers"


def known_labs() -> dict[str, Path | None]:
    """Name the labs that can be chosen: boxes that are up, and each lab.toml that lies here."""
    labs: dict[str, Path | None] = {NO_LAB: None}
    for name in box.names():
        status = box.status(name)
        if status.state == "up" and status.lab:
            labs[f"box {name}"] = Path(status.lab)
    for folder in dict.fromkeys((Path.cwd(), HOME)):
        if (folder / FILE).is_file():
            labs[str(folder / FILE)] = folder / FILE
    return labs


def first_choice(labs: Mapping[str, Path | None]) -> str:
    """The usual box if it is up, else another; hosts of your own are asked only when chosen."""
    boxes = sorted((name != USUAL, name) for name in labs if name.startswith("box "))
    return boxes[0][1] if boxes else NO_LAB


def hosts_now(lab: Lab) -> list[HostNow]:
    """Ask all hosts of a lab at the same time; one that is silent says why."""
    return together(lambda role: _look_at(lab.host(role), role), lab.hosts, len(lab.hosts))


def _look_at(host: Host, role: str) -> HostNow:
    facts = look(host, role)
    kernel, cpus = facts.get("kernel", ""), facts.get("cpus", "")
    row = HostNow(role, facts["address"], facts["state"], kernel, cpus)
    if not row.answers:
        return row
    try:
        greeting = hello(host)
    except LabkitError as odd:
        return replace(row, trouble=str(odd))
    holder = str(greeting.lease) if greeting.held else ""
    # What is being changed now is no leftover.
    leftovers = () if greeting.held else tuple(map(str, greeting.open))
    return replace(row, held=holder, unfinished=leftovers)


def put_back(host: Host) -> tuple[bool, list[str]]:
    """Put back what is unfinished on a host: whether all is, and a line for each thing.

    A failure says what to try.
    """
    try:
        outcome = restore(host, "the front page")
    except LabkitError as error:
        return False, str(error).splitlines()
    return outcome.ok, outcome.lines or ["nothing to put back"]
