"""The lab on the front page: choose one, see its hosts, put back what is unfinished."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import ipywidgets as widgets  # type: ignore[import-untyped]

from labkit.errors import BadInput
from labkit.front.area import Area, Speaker, Worker, button, heading
from labkit.front.lab_now import (
    NO_LAB,
    HostNow,
    first_choice,
    hosts_now,
    known_labs,
    put_back,
)
from labkit.lab import Lab
from labkit.pages.filled import safe
from labkit.pages.lab_panel import LabPanel, wrapped
from labkit.pages.tables import Table, table

HEAD = ("role", "address", "state", "kernel", "cpus", "held by", "not put back")
NO_LAB_OPEN = (
    "No lab is open. Start the lab in a box with `labkit box up`, or enter the path of a lab.toml."
)


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

    def begin(self) -> None:
        """Ask the hosts of the chosen lab, while the page stays free."""
        self.worker.begin("Asking the hosts", self.look)

    def look(self) -> str:
        """Ask all hosts of the chosen lab, and show what they say."""
        labs = known_labs()
        self.choice.options = tuple(labs)
        if not self.choice.value:
            self._prefer(first_choice(labs))
        self._open(labs.get(self.choice.value, Path(self.choice.value).expanduser()))
        self.hosts = hosts_now(self.lab) if self.lab else ()
        self._show()
        self._changed()
        roles = [host.role for host in self.hosts if host.unfinished]
        return f"Changes are not put back on {', '.join(roles)}." if roles else ""

    def restore(self, role: str) -> str:
        """Put back what is unfinished on one host, and say what became of each thing."""
        if self.lab is None:
            raise BadInput("no lab is open", hint="choose one above")
        ok, lines = put_back(self.lab.host(role))
        self.hosts = hosts_now(self.lab)
        self._show()
        head = f"{role}: put back" if ok else f"{role}: not everything was put back"
        return "\n".join([head, *(f"  {line}" for line in lines)])

    def _choose(self, _: object) -> None:
        self.begin()

    # The page's own choice is no wish of the reader.
    def _prefer(self, name: str) -> None:
        self.choice.unobserve(self._choose, names="value")
        self.choice.value = name
        self.choice.observe(self._choose, names="value")

    def _open(self, path: Path | None) -> None:
        if self.lab is not None:
            self.lab.close()
            self.lab = None
        if path is not None and self.choice.value != NO_LAB:
            self.lab = Lab.read(path)

    def _show(self) -> None:
        if self.lab is None:
            self.shown.show(f"<p>{safe(NO_LAB_OPEN)}</p>")
        else:
            badge = f"<p><b>{safe(LabPanel(self.lab).badge)}</b></p>"
            self.shown.show(f'{badge}<div class="lk-scroll">{hosts_table(self.hosts).html()}</div>')
        roles = [host.role for host in self.hosts if host.unfinished]
        self.restores.children = [self._restore_button(role) for role in roles]

    def _restore_button(self, role: str) -> widgets.Button:
        hint = f"Put back what labkit changed on {role} and did not put back"
        widget = button(f"Restore {role}", hint, "undo")
        widget.on_click(lambda _: self.worker.begin(f"Putting back {role}",
                                                    partial(self.restore, role)))  # fmt: skip
        return widget


def hosts_table(hosts: Sequence[HostNow]) -> Table:
    """The hosts, who holds each, and the change sets that are not put back."""
    rows = [
        {"role": host.role, "address": host.address, "state": host.state, "kernel": host.kernel,
         "cpus": host.cpus, "held by": host.held or ("nobody" if host.answers else ""),
         "not put back": "\n".join(host.unfinished) or host.trouble or "nothing" * host.answers}
        for host in hosts
    ]  # fmt: skip
    return table(rows, HEAD)
