"""A setting: how to read it, how to write it. What is changed is put back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from labkit.errors import LabkitError, SettingRefused
from labkit.host import Host


@dataclass(frozen=True)
class Setting(ABC):
    """One thing that a study changes on the host that plays `role`."""

    role: ClassVar[str]

    @property
    def thing(self) -> str:
        """What is changed; two settings of one thing replace each other."""
        return f"{type(self).__name__} of {self.role}"

    @property
    @abstractmethod
    def wanted(self) -> str:
        """The value that `read` returns once the setting is in force."""

    @abstractmethod
    def read(self, host: Host) -> str:
        """The value in force now."""

    @abstractmethod
    def write(self, host: Host, value: str) -> None:
        """Bring `value`, one that `read` returned or `wanted`, into force."""

    def refusal(self, host: Host) -> str:
        """Why this host cannot take the setting; empty when it can."""
        return ""

    def __str__(self) -> str:
        return f"{type(self).__name__} = {self.wanted}"


@dataclass
class InForce:
    """What has been changed on some hosts so far, and what it was before."""

    hosts: Mapping[str, Host]
    changed: dict[str, tuple[Setting, str]] = field(default_factory=dict)

    def move_to(self, settings: Sequence[Setting]) -> None:
        """Bring these settings into force, in order; all others that were changed go back first.

        What is in force already is only checked, so going from one condition to the next costs no
        more restarts than it must.
        """
        kept = {setting.thing for setting in settings}
        self._put_back([thing for thing in self.changed if thing not in kept])
        for setting in settings:
            host = self.hosts[setting.role]
            if setting.thing not in self.changed:
                self.changed[setting.thing] = (setting, setting.read(host))
            _insist(setting, host, setting.wanted, "take")

    def put_back(self) -> None:
        """Put everything back, last change first, whatever fails on the way."""
        self._put_back(list(self.changed))

    def check(self, settings: Sequence[Setting]) -> None:
        """Refuse to go on when a setting is no longer what it was made to be."""
        for setting in settings:
            if (now := setting.read(self.hosts[setting.role])) != setting.wanted:
                raise SettingRefused(
                    f"{self.hosts[setting.role].name}: {setting} has changed meanwhile to {now!r}",
                    hint="is something else on that host managing the same setting?",
                )

    def _put_back(self, things: list[str]) -> None:
        failures: list[LabkitError] = []
        for thing in reversed(things):
            setting, original = self.changed.pop(thing)
            try:
                _insist(setting, self.hosts[setting.role], original, "go back")
            except LabkitError as failed:
                failures.append(failed)
        if failures:
            raise SettingRefused(
                f"{len(failures)} of {len(things)} settings did not go back",
                said="\n".join(failed.what for failed in failures),
                hint="see to these by hand",
            )


@contextmanager
def in_force(hosts: Mapping[str, Host]) -> Iterator[InForce]:
    """Settings that can be moved from one condition to the next; all put back at the end."""
    changes = InForce(hosts)
    try:
        yield changes
    finally:
        changes.put_back()


@contextmanager
def applied(settings: Sequence[Setting], hosts: Mapping[str, Host]) -> Iterator[dict[str, str]]:
    """Apply settings in order, check that each took, and put them back in reverse come what may.

    Yields what was in force before, by thing.
    """
    with in_force(hosts) as changes:
        changes.move_to(settings)
        yield {thing: original for thing, (_, original) in changes.changed.items()}


def _insist(setting: Setting, host: Host, value: str, verb: str) -> None:
    if setting.read(host) == value:
        return
    setting.write(host, value)
    if (now := setting.read(host)) != value:
        raise SettingRefused(
            f"{host.name}: {setting.thing} did not {verb}: wanted {value!r}, reads back as {now!r}",
            hint="is something else on that host managing the same setting?",
        )
