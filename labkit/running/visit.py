"""A visit to the conditions of a study: each is set up, measured between gates, and kept."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import numpy as np

from labkit.box.status import processes
from labkit.changes.in_force import BEAT_SECONDS, InForce
from labkit.changes.restore import refuse_left
from labkit.condition import Condition
from labkit.errors import LabkitError, SettingRefused, Stopped
from labkit.event import Happening, event_samples, happening
from labkit.fleet.fleet import Fleet
from labkit.gates import around, generator
from labkit.gates import watch as gated
from labkit.gates.counter import Counters
from labkit.job.of_runs import end_left
from labkit.lab import Lab
from labkit.results import Results, Run
from labkit.runs import looks
from labkit.runs.progress import Progress, Tell, stop_asked, to_file
from labkit.setting import Setting
from labkit.workload import Workload, row
from labkit.workloads import _pairs as pairs
from labkit.workloads._lasting import key_of, results_key, under_way

S = TypeVar("S")
T = TypeVar("T")
TRIES = 2
"""Attempts at a run whose settings somebody else changes meanwhile."""
GATE_TRIES = 3
"""Attempts at a run that something on its hosts spoils; then the study goes on."""


@dataclass(frozen=True)
class PlannedRun:
    """One run that is to be made: its place in the order, and its block."""

    block: int
    order: int
    condition: Condition

    @property
    def of(self) -> tuple[str, int]:
        """Condition and block, which identify the run within the study."""
        return self.condition.name, self.block


@dataclass
class Visit:
    """One pass over the steps; knows how long a run takes by the ones before."""

    loads: tuple[Workload, ...]
    lab: Lab
    results: Results
    tell: Tell
    stop: threading.Event
    changes: InForce
    counters: Counters
    done: int = 0
    spent: list[float] = field(default_factory=list)
    left_out: set[tuple[str, int]] = field(default_factory=set)
    looks: int = 0
    _writer: ThreadPoolExecutor = field(init=False)
    _unwritten: list[Future[Run]] = field(default_factory=list)

    def through(self, steps: list[PlannedRun]) -> None:
        """Make the runs that the results lack."""
        runs = {(run.condition, run.block) for run in self.results.finished()}
        lacking = [step for step in steps if step.of not in runs]
        self.done, self.looks = len(steps) - len(lacking), len(looks.taken(self.results))
        todo = [step for step in lacking if step.of not in self.left_out]
        if todo:
            _do_both(lambda: self._prepare(todo), lambda: self._take(todo))
        looks.set_unfinished(self.results, unfinished=bool(todo))
        with ThreadPoolExecutor(1) as self._writer:
            for step in todo:
                self._end_if_asked(len(steps))
                self._valid(step, len(steps))
            self._settle()
        looks.set_unfinished(self.results, unfinished=False)
        self._say("finished", steps[-1], len(steps))

    # What a crash left in force would be measured too, on hosts that are not to be changed as well.
    def _take(self, todo: list[PlannedRun]) -> None:
        roles = {setting.role for step in todo for setting in step.condition.asked(self.lab)}
        self.changes.take(role for role in self.changes.possible_roles() if role in roles)
        watches = (step.condition.watch(self.lab, self.loads) for step in todo)
        hosts = {role: host for watch in watches for role, host in watch.hosts.items()}
        own_roles = self.changes.sets
        refuse_left({r: h for r, h in hosts.items() if r not in own_roles}, self.changes.owner)

    # What a killed process of other results has left would be measured too; with what is of these
    # we may go on. What counts takes a guest without hardware support up to a second to start. One
    # that cannot be asked now is asked when it matters.
    def _prepare(self, todo: list[PlannedRun]) -> None:
        of_ours = results_key(str(self.results.path))
        pairs_of = [step.condition.pairs(self.lab, load) for step in todo for load in self.loads]
        ends = [hosts for roles in pairs_of for hosts in roles.values()]
        fleet = Fleet({host.name: host for hosts in ends for host in hosts.values()})
        for jobs in fleet.each(partial(end_left, keep=of_ours)).values():
            for job in jobs if isinstance(jobs, list) else ():
                self._say("setting up", todo[0], len(todo), f"ended what was left: {job}")
        if self.lab.emulated:
            watches = [step.condition.watch(self.lab, self.loads) for step in todo]
            hosts = {role: host for watch in watches for role, host in watch.hosts.items()}
            Fleet(hosts).each(self.counters.collect)

    # A run is written while the settings of the next are made, never while that is measured.
    def _keep(self, run: Run, raw: Mapping[str, str], note: Future[Run]) -> None:
        def write() -> Run:
            record = self.results.keep(run, raw)
            self.results.forget(note.result())
            return record

        self._settle()
        self._unwritten.append(self._writer.submit(write))

    def _settle(self) -> None:
        unwritten, self._unwritten = self._unwritten, []
        for future in unwritten:
            future.result()

    def _end_if_asked(self, of: int) -> None:
        if self.stop.is_set() or stop_asked():
            self._settle()
            problem = f"stopped after {self.done} of {of} runs; settings are put back"
            raise Stopped(problem, hint="run it again to measure only what is missing")

    # Somebody who changes our settings once may have been a person; twice, it is a program.
    def _valid(self, step: PlannedRun, of: int) -> None:
        drifts, remark = 0, ""
        for _ in range(GATE_TRIES):
            run, by_somebody = self._visit(step, of, remark)
            self.spent.append(run.seconds)
            if run.state == "finished":
                self.done += 1
                return
            drifts += by_somebody
            if drifts == TRIES:
                raise SettingRefused(
                    f"{step.condition.name} was not measured: {TRIES} runs were invalid",
                    said=run.why, hint="does something else on that host manage this setting?",
                )  # fmt: skip
            remark = f"{step.condition.name} was invalid: {run.why}"
            self._end_if_asked(of)
        self.left_out.add(step.of)
        self._say("left out", step, of, f"{remark}; left out after {GATE_TRIES} invalid runs")

    def _visit(self, step: PlannedRun, of: int, remark: str) -> tuple[Run, bool]:
        changes = self.changes
        settings = [s for s in step.condition.asked(self.lab) if not changes.steps[s].why]
        start, run = time.monotonic(), self._begin(step, settings)
        note = self._writer.submit(self.results.note, run)
        self._unwritten.append(note)
        raw: dict[str, str] = {}
        watch = replace(step.condition.watch(self.lab, self.loads), collect=self.counters.collect)
        try:
            self._say("setting up", step, of, remark)
            for guest in step.condition.resting(self.lab):
                self.lab.host(guest).rest()
            changes.move_to(settings, step.condition.left)
            changing = time.monotonic() - start
            changes.check_live(settings)
            self._settle()
            watch.begin()
            self._look_around(raw, around.BEFORE)
            self._say("measuring", step, of)
            before = len(changes.drifts)
            seconds = self._measure(step, raw)
            self._look_around(raw, around.AFTER)
            _, drifts_seen = _do_both(watch.end, lambda: changes.drifted(settings, BEAT_SECONDS))
            drifts = [*drifts_seen, *changes.drifts[before:]]
            raw.update(watch.raw())
            rows = self._rows(step.condition, raw)
        except BaseException as error:
            if isinstance(error, LabkitError) and not error.what.startswith(step.condition.name):
                error.what = f"{step.condition.name}: {error.what}"
            state, reason = _end(error)
            took = time.monotonic() - start
            self._keep(replace(run, state=state, why=reason, seconds=took), raw, note)
            self._settle()
            raise
        gates, silent_gates = self._gates(step.condition, watch, raw)
        borne = (*step.condition.expects, *self.lab.tolerates)
        spoilers = gated.spoiling(gates, borne, self.lab.emulated)
        record = replace(
            run,
            state="invalid" if drifts or spoilers else "finished",
            why="\n".join([*map(str, drifts), *spoilers]), before=changes.before,
            seconds=time.monotonic() - start, measured_seconds=seconds, changes_seconds=changing,
            rows=rows, gates=gates, untold=silent_gates,
        )  # fmt: skip
        self._keep(record, raw, note)
        return record, bool(drifts)

    def _rows(self, condition: Condition, raw: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
        rows: list[dict[str, Any]] = []
        for load in self.loads:
            with pairs.blaming(load, "parse"):
                rows += map(row, pairs.parse(load, raw[f"{load.name}.txt"]))
        return *rows, *map(row, event_samples(condition.events, self.loads, raw.get))

    def _begin(self, step: PlannedRun, settings: list[Setting]) -> Run:
        values = {setting.thing: setting.wanted for setting in settings}
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        return Run(
            step.condition.name, step.block, step.order, "finished", "", values, started=moment,
            reread_seconds=self.changes.period, looks=self.looks,
        )  # fmt: skip

    # What was said before a failure is kept with it.
    def _measure(self, step: PlannedRun, raw: dict[str, str]) -> float:
        start = time.monotonic()
        with self.lab.links_alive():
            try:
                with happening(step.condition.events, self.lab) as beside:
                    self._load(step, raw, beside if step.condition.events else None)
            finally:
                raw.update(beside.texts)
        return time.monotonic() - start

    # What hosts counted, what the loads printed, and what the machine did else.
    def _gates(
        self, condition: Condition, watch: gated.Watch, raw: Mapping[str, str]
    ) -> tuple[generator.Gates, generator.Gates]:
        loads = [condition.load(load) for load in self.loads]
        gates, silent_gates = generator.beside(watch.tripped(), watch.untold(), loads, raw)
        strangers = around.between(raw.get(around.BEFORE, ""), raw.get(around.AFTER, ""))
        if strangers and strangers.much:
            gates = {**gates, around.ROLE: {strangers.gate.name: strangers.gate.why}}
        return gates, silent_gates

    # Hosts of one's own count what they do themselves; those of a box share this machine.
    def _look_around(self, raw: dict[str, str], name: str) -> None:
        if self.lab.emulated:
            raw[name] = around.look(processes(self.lab.name))

    # What happens beside them happens once, beside the first. A run under changes of this process
    # has no job of an earlier one: to look for it takes an emulated guest seconds.
    def _load(self, step: PlannedRun, raw: dict[str, str], beside: Happening | None) -> None:
        for load in self.loads:
            together = step.condition.pairs(self.lab, load)
            workload, key = step.condition.load(load), self._key(step, load)
            company = beside or self.changes.changed
            if not company and (text_of_job := under_way(workload, together, key)):
                raw["under_way.txt"] = text_of_job
            with pairs.blaming(load, "run"):
                name = "/".join(self.results.path.parts[-2:])
                text: object = pairs.run(workload, together, key, beside, name)
                if not isinstance(text, str):
                    raise TypeError(f"it returns the printed text, not {text!r}")
                raw[f"{load.name}.txt"] = text
            beside = None

    # What a killed process had changed is put back, so that only what changed nothing goes on.
    def _key(self, step: PlannedRun, load: Workload) -> str:
        state = self.changes.owner.token if self.changes.changed else ""
        return key_of(str(self.results.path), (step.of, load.name), state)

    def _say(self, step: str, at: PlannedRun, of: int, remark: str = "") -> None:
        estimate = 3 + sum(load.seconds for load in self.loads)
        seconds = float(np.mean(self.spent)) if self.spent else estimate
        seconds_left = (of - self.done) * seconds if step != "finished" else 0.0
        progress = Progress(step, at.condition.name, at.block, self.done, of, seconds_left, remark)
        to_file(progress, self.results)
        self.tell(progress)


def _end(by: BaseException) -> tuple[str, str]:
    if isinstance(by, LabkitError):
        return "failed", str(by)
    if isinstance(by, Exception):
        return "failed", f"{type(by).__name__}: {by}"
    return "interrupted", "it was stopped before it had ended"


# Hosts are asked for two things at once, as each of them takes its time to answer.
def _do_both(first_task: Callable[[], S], second_task: Callable[[], T]) -> tuple[S, T]:
    with ThreadPoolExecutor(1) as beside:
        first = beside.submit(first_task)
        second = second_task()
    return first.result(), second
