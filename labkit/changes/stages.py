"""The work on the hosts of a lab in one move, and the parts of it done at the same time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from labkit.changes.plan import AT_ONCE, Step
from labkit.host import Host

T = TypeVar("T")


@dataclass(frozen=True)
class Op:
    """One thing to do on the host of a role: put it back, or make it."""

    role: str
    step: Step
    back: bool
    there: bool = False
    """Whether it is in force already, and so only looked at."""

    @property
    def barrier(self) -> bool:
        """Whether other hosts wait until this is done."""
        return self.step.barrier and not self.there

    @property
    def crowds(self) -> bool:
        """Whether guests of the host are slow from then on."""
        return bool(self.step.way and self.step.way.crowds) and not (self.back or self.there)


def replaced(step: Step, host: Host) -> str:
    """The role of the guest whose devices a change replaces, or that it starts again; or ""."""
    way, setting = step.way, step.setting
    if not way or way.replaces or "guest restart" not in way.needs:
        return way.replaces if way else ""
    vm = str(getattr(setting, "vm", ""))
    of_vm = next((role for role, guest in host.guests.items() if guest.vm == vm), vm)
    return str(getattr(setting, "named", "")) or of_vm


def stages(ops: Sequence[Op]) -> list[dict[str, list[Op]]]:
    """Group what can be done at the same time: each host in its order, and alone around a barrier.

    What takes time from guests waits until others have put back what they have to.
    """
    crowds = {op.role for op in ops if op.crowds}
    if not crowds or any(op.barrier for op in ops):
        return _stages(ops)
    first = [op for op in ops if op.back and op.role not in crowds]
    return _stages(first) + _stages(op for op in ops if op not in first)


def _stages(ops: Iterable[Op]) -> list[dict[str, list[Op]]]:
    groups: list[dict[str, list[Op]]] = []
    alone = False
    for op in ops:
        has_others = bool(groups) and set(groups[-1]) != {op.role}
        if not groups or (has_others and (alone or op.barrier)):
            groups.append({})
            alone = False
        groups[-1].setdefault(op.role, []).append(op)
        alone = alone or op.barrier
    return groups


def on_all(work: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Do something on each host; all are waited for, then the first failure is raised."""
    if len(work) == 1:
        return {role: work_of() for role, work_of in work.items()}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = {role: pool.submit(work_of) for role, work_of in work.items()}
    return {role: future.result() for role, future in futures.items()}
