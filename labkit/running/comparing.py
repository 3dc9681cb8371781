"""A against B: any command under two lists of settings, two commands, or one on two hosts.

It is a study like any other, so that its runs are gated, kept and judged as theirs are.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labkit import studies
from labkit.changes.in_force import in_force
from labkit.changes.plan import plan
from labkit.claim import Order
from labkit.condition import Condition
from labkit.errors import BadInput, ResultsError, insist_each
from labkit.judging import judge
from labkit.lab import Lab
from labkit.results import Results
from labkit.running import loop, possible, until_decided
from labkit.running.open_lab import study_results
from labkit.runs.progress import Tell
from labkit.setting import Setting
from labkit.statistics.comparison import check_margin
from labkit.statistics.estimate import estimated
from labkit.statistics.interval import Interval
from labkit.statistics.pooled import BEYOND, FEWEST_BLOCKS
from labkit.statistics.quantity import Quantity, Statistic
from labkit.study import Study
from labkit.verdict import CONTRADICTED, HOLDS, SAME, Verdict
from labkit.workloads.command import MOST_TIMES, Command

STUDY, CLAIM = "compare", "a-lower-than-b"
"""The name that these results have in place of a study's, and that of their one claim."""
A, B = "A", "B"
EACH_SECONDS = 0.5
"""A command that takes less is run several times in each run."""
ENOUGH_TIMES = -(-2 * BEYOND // FEWEST_BLOCKS)
"""Of fewer values in each run, the fewest blocks know no median."""
PLAIN = "as it is"


@dataclass(frozen=True)
class Side:
    """One of the two: a command, the role of the host that runs it, and what is set there."""

    words: tuple[str, ...]
    role: str = "server"
    settings: tuple[Setting, ...] = ()
    optional: tuple[Setting, ...] = ()
    """Settings that are made where the host can take them."""
    shown: str = PLAIN
    """The settings in words, for results that are read later."""
    lacks: tuple[str, ...] = ()
    """Of the optional ones, those that the host cannot take, each with the reason."""

    def __post_init__(self) -> None:
        insist_each(self.words, str, "words of a side", '"sleep", "1"')
        insist_each(self.settings, Setting, "settings of a side", "Mtu(9000)")

    def condition(self, name: str) -> Condition:
        """The condition of the study that measures it."""
        text = f"{shlex.join(self.words)} ({self.shown}, on {self.role})"
        return Condition(
            name, means=text, here=text, settings=self.settings, optional=self.optional,
            roles={"server": self.role}, knobs={"words": self.words},
        )  # fmt: skip


def in_words(settings: Sequence[Setting]) -> str:
    """Settings as a reader knows them: what of one host, and its value."""
    return "; ".join(f"{s.thing.replace(f' of {s.role}', '', 1)} = {s.wanted}" for s in settings)


@dataclass(frozen=True)
class Comparing:
    """A question: two sides, how their command is measured, and what is too close to matter."""

    sides: Mapping[str, Side]
    load: Command
    margin: float | None = None

    def __post_init__(self) -> None:
        insist_each([*self.sides.values()], Side, "sides", 'Side(("sleep", "1"))')
        if {*self.sides} != {A, B}:
            raise BadInput(f"the sides are {A} and {B}, not {', '.join(map(str, self.sides))}")

    @property
    def statistic(self) -> Statistic:
        """The median of all values; the mean where each run has but few."""
        return 50 if self.load.times >= ENOUGH_TIMES else "mean"

    def study(self) -> Study:
        """The study of it."""
        statistics = (self.statistic,)
        order = Order(CLAIM, "A is lower than B", "", statistics, (A, B), margin=self.margin)
        return Study(
            name=STUDY, title="A against B", question="Which of the two is lower?",
            source="labkit compare", workload=self.load, claims=(order,),
            conditions=tuple(side.condition(name) for name, side in self.sides.items()),
            metric=self.load.metric, unit=self.load.unit,
        )  # fmt: skip

    def kept(self) -> dict[str, Any]:
        """All of it for study.json."""
        sides = {
            n: {"words": list(s.words), "role": s.role, "shown": s.shown, "lacks": list(s.lacks)}
            for n, s in self.sides.items()
        }
        return {STUDY: {"sides": sides, "margin": self.margin}}

    @classmethod
    def of(cls, results: Results) -> Comparing:
        """The question that results are about."""
        try:
            fields, load = results.asked[STUDY], dict(results.asked["workload"])
            sides = {
                name: Side(tuple(s["words"]), s["role"], shown=s["shown"],
                           lacks=tuple(s.get("lacks", ())))
                for name, s in fields["sides"].items()
            }  # fmt: skip
            del load["name"]
            return cls(sides, Command(**{**load, "words": tuple(load["words"])}), fields["margin"])
        except (KeyError, TypeError, AttributeError) as error:
            problem = f"{results.path / 'study.json'}: is no comparison of A with B"
            raise ResultsError(problem, said=repr(error)) from None


@dataclass(frozen=True)
class Outcome:
    """The figure of each side, and the verdict on which is lower."""

    comparing: Comparing
    results: Results
    figures: Mapping[str, Interval]
    verdict: Verdict

    @property
    def lower(self) -> str:
        """The side that is clearly lower; empty if neither is."""
        return {HOLDS: A, CONTRADICTED: B}.get(self.verdict.verdict, "")

    @property
    def same(self) -> bool:
        """Whether they clearly differ by less than the margin."""
        return self.verdict.verdict == SAME


def compare_sides(
    comparing: Comparing, lab: Lab, *, label: str, repeats: int | str, tell: Tell = lambda _: None
) -> Outcome:
    """Measure both in shuffled blocks, until it is decided or the budget is spent."""
    check_margin(comparing.margin)
    until_decided.asked(repeats)  # refused before a command is tried
    # Optional settings that a host cannot take are left out, and said.
    sides = {name: fitted(side, lab) for name, side in comparing.sides.items()}
    able = replace(comparing, sides=sides)
    if refusals := possible.refusals(able.study(), lab):
        name, reason = next(iter(refusals.items()))
        raise BadInput(f"{name} cannot be measured on {lab.name}: {reason}")
    trial = _try_out(able, lab)
    study = trial.study()
    results = study_results(study, lab, "", label=label, extras=trial.kept())
    loop.run(study, lab, results, repeats=repeats, tell=tell)
    return outcome(results)


def outcome(results: Results) -> Outcome:
    """Judge what was measured."""
    comparing = Comparing.of(results)
    study = comparing.study()
    (verdict,) = judge(study, results)
    figures = {
        name: estimated(Quantity(f"'{name}'", comparing.statistic), {name: blocks}).interval()
        for name, blocks in study.blocks(results).items()
    }
    return Outcome(comparing, results, figures, verdict)


def study_of(results: Results) -> Study:
    """The study that results are of, a comparison of A with B too."""
    return Comparing.of(results).study() if STUDY in results.asked else studies.find(results.study)


def fitted(side: Side, lab: Lab) -> Side:
    """The side as this lab can have it: with what its host cannot take named, and left out."""
    lab.host(side.role)  # an unknown role is refused first
    if not side.optional:
        return side
    steps = plan([*side.settings, *side.optional], lab.hosts).steps
    steps_of = {step.setting: step for step in steps if not step.why}
    lacks = tuple(f"{in_words([step.setting])} ({step.why})" for step in steps
                  if step.why and step.setting in side.optional)  # fmt: skip
    if not any(step.changes or step.setting in side.settings for step in steps):
        reasons = [f"{in_words([s.setting])}: {s.why or 'in force already'}" for s in steps]
        problem = f"{side.shown} changes nothing on {side.role} of {lab.name}"
        hint = f"labkit settings {side.role} lists what it can"
        raise BadInput(problem, said="\n".join(reasons), hint=hint)
    text = f"{side.shown}: {in_words([*steps_of])}"
    optional = tuple(setting for setting in side.optional if setting in steps_of)
    return replace(side, optional=optional, shown=text, lacks=lacks)


# A setting that does not take, and a command that fails or prints nothing that the pattern finds,
# do so before anything is kept; the settings first, as a command may take long. How long it takes
# says how often it fits into one run.
def _try_out(comparing: Comparing, lab: Lab) -> Comparing:
    sides = [*comparing.sides.values()]
    with in_force(lab.hosts, STUDY) as changes:
        for side in reversed(sides):
            changes.move_to([*side.optional, *side.settings])
        took = 1e-4
        for side in sides:
            changes.move_to([*side.optional, *side.settings])
            command, start = replace(comparing.load, words=side.words, times=1), time.monotonic()
            command.parse(command.run({"server": lab.host(side.role)}))
            took = max(took, time.monotonic() - start)
    times = max(1, min(round(EACH_SECONDS / took), MOST_TIMES))
    load = replace(comparing.load, times=times, about=round(times * took, 3))
    return replace(comparing, load=load)
