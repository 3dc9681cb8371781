"""The lab on the front page: choose one, see who answers and holds a host, put changes back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import ipywidgets as widgets  # type: ignore[import-untyped]

from labkit import box
from labkit.changes.journal import hello
from labkit.changes.restore import restore
from labkit.errors import BadInput, LabkitError
from labkit.front.area import Area, Speaker, Worker, button, heading
from labkit.host import Host
from labkit.lab import Lab
from labkit.machine.places import HOME
from labkit.machine.stopping import together
from labkit.pages.filled import safe
from labkit.pages.lab_panel import LabPanel, look, wrapped
from labkit.pages.tables import Table, table

NO_LAB = "no lab"
FILE, USUAL = "lab.toml", "box lab"
HEAD = ("role", "address", "state", "kernel", "cpus", "held by", "not put back")
NO_LAB_OPEN = (
    "No lab is open. Start the lab in a box with `labkit box up`, or enter the path of a lab.toml."
)


@dataclass(frozen=True)
class HostNow:
    """One host's answer now; `trouble` is the reason why its journal could not be read."""

    role: str
    facts: Mapping[str, str]
    held: str = ""
    unfinished: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def answers(self) -> bool:
        """Whether it was reached."""
        return self.facts["state"] == "answers"


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


def hosts_now(lab: Lab) -> list[HostNow]:
    """Ask all hosts of a lab at the same time; one that is silent says why."""
    return together(lambda role: _look_at(lab.host(role), role), lab.hosts, len(lab.hosts))


def _look_at(host: Host, role: str) -> HostNow:
    row = HostNow(role, look(host, role))
    if not row.answers:
        return row
    try:
        greeting = hello(host)
    except LabkitError as odd:
        return HostNow(role, row.facts, trouble=str(odd))
    if greeting.held:  # what is being changed now is no leftover
        return HostNow(role, row.facts, held=str(greeting.lease))
    return HostNow(role, row.facts, unfinished=tuple(map(str, greeting.open)))


def put_back(host: Host) -> tuple[bool, list[str]]:
    """Put back what is unfinished on a host: whether all is, and a line for each thing.

    A failure says what to try.
    """
    try:
        outcome = restore(host, "the front page")
    except LabkitError as error:
        return False, str(error).splitlines()
    return outcome.ok, outcome.lines or ["nothing to put back"]


def hosts_table(hosts: Sequence[HostNow]) -> Table:
    """The hosts, who holds each, and the change sets that are not put back."""
    rows = [
        {**host.facts, "held by": host.held or ("nobody" if host.answers else ""),
         "not put back": "\n".join(host.unfinished) or host.trouble or "nothing" * host.answers}
        for host in hosts
    ]  # fmt: skip
    return table(rows, HEAD)


class LabSection:
    """The lab that the page is about; `changed` is called once its hosts were asked."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.lab: Lab | None = None
        self.hosts: Sequence[HostNow] = ()
        self._changed = on_change
        self.speaker, self.shown = Speaker(), Area()
        self.worker = Worker(self.speaker)
        self.choice = widgets.Combobox(
            description="Lab", placeholder="box NAME, or the path of a lab.toml",
            continuous_update=False, layout=widgets.Layout(width="min(100%, 420px)"),
        )  # fmt: skip
        self.again = button("Refresh lab", "Ask all hosts of this lab again", "refresh")
        self.again.on_click(lambda _: self.begin())
        self.choice.observe(self._choose, names="value")
        self.restores = widgets.HBox(layout=widgets.Layout(flex_flow="row wrap"))
        self.view = widgets.VBox(
            [heading("The lab"), wrapped([self.choice, self.again]), self.shown.widget,
             self.restores, self.speaker.widget]
        )  # fmt: skip

    @property
    def answering(self) -> list[str]:
        """The roles of the hosts that answer."""
        return [host.role for host in self.hosts if host.answers]

    @property
    def unfinished(self) -> list[str]:
        """The roles of the hosts on which changes are not put back."""
        return [host.role for host in self.hosts if host.unfinished]

    def begin(self) -> None:
        """Ask the hosts of the chosen lab, while the page stays free."""
        self.worker.begin("Asking the hosts", self.look)

    def look(self) -> str:
        """Ask all hosts of the chosen lab, and show what they say."""
        labs = known_labs()
        self.choice.options = tuple(labs)
        if not self.choice.value:
            self._prefer(labs)
        self._open(labs.get(self.choice.value, Path(self.choice.value).expanduser()))
        self._show()
        self._changed()
        roles = self.unfinished
        return f"Changes are not put back on {', '.join(roles)}." if roles else ""

    def restore(self, role: str) -> str:
        """Put back what is unfinished on one host, and say what became of each thing."""
        if self.lab is None:
            raise BadInput("no lab is open", hint="choose one above")
        ok, lines = put_back(self.lab.host(role))
        self._show()
        head = f"{role}: put back" if ok else f"{role}: not everything was put back"
        return "\n".join([head, *(f"  {line}" for line in lines)])

    def _choose(self, _: object) -> None:
        self.begin()

    # The usual box if it is up, else another; hosts of your own are asked only when chosen. This
    # choice is no wish of the reader.
    def _prefer(self, labs: Mapping[str, Path | None]) -> None:
        boxes = sorted((name != USUAL, name) for name in labs if name.startswith("box "))
        self.choice.unobserve(self._choose, names="value")
        self.choice.value = boxes[0][1] if boxes else NO_LAB
        self.choice.observe(self._choose, names="value")

    def _open(self, path: Path | None) -> None:
        if self.lab is not None:
            self.lab.close()
            self.lab = None
        if path is not None and self.choice.value != NO_LAB:
            self.lab = Lab.read(path)

    def _show(self) -> None:
        self.hosts = hosts_now(self.lab) if self.lab else ()
        if self.lab is None:
            self.shown.show(f"<p>{safe(NO_LAB_OPEN)}</p>")
        else:
            badge = f"<p><b>{safe(LabPanel(self.lab).badge)}</b></p>"
            self.shown.show(f'{badge}<div class="lk-scroll">{hosts_table(self.hosts).html()}</div>')
        self.restores.children = [self._restore_button(role) for role in self.unfinished]

    def _restore_button(self, role: str) -> widgets.Button:
        hint = f"Put back what labkit changed on {role} and did not put back"
        widget = button(f"Restore {role}", hint, "undo")
        widget.on_click(lambda _: self.worker.begin(f"Putting back {role}",
                                                    partial(self.restore, role)))  # fmt: skip
        return widget
