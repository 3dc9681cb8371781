"""The head of a report, above everything: the finding, what it rests on, and how to repeat it."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import join
from typing import Any

from markupsafe import Markup

from labkit import controls, kernels
from labkit.claim import NotHere
from labkit.claims import published
from labkit.gates import around
from labkit.judging.finding import GUESTS, AnswerFigure, headlines
from labkit.machine.units import capital
from labkit.pages.filled import filled
from labkit.pages.tables import Table
from labkit.reason import span
from labkit.results import Results
from labkit.running import notebook
from labkit.running.deciders import deciders
from labkit.running.open_lab import note
from labkit.statistics.percentiles import MOST_BLOCKS
from labkit.study import Study
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE, SAME, UNDECIDED, Verdict

WENT = {
    HOLDS: ("holds", "hold"),
    CONTRADICTED: ("is contradicted", "are contradicted"),
    SAME: ("shows no difference", "show no difference"),
    UNDECIDED: ("needs more repeats", "need more repeats"),
    NOT_TESTABLE: ("cannot be tested here", "cannot be tested here"),
}
"""The words for one claim and for several, for each verdict; what is decided comes first."""
NOT_HARDWARE = "Emulated figures are not those of hardware."
MOST_NAMED = 4
"""Emulated conditions that are named."""


@dataclass(frozen=True)
class NextStep:
    """A step that readers can take about claims that are open, and the command for it."""

    words: str
    command: str


@dataclass(frozen=True)
class ReportHead:
    """What was found, how sure, what to do; the verdict on each claim, controls, and facts."""

    answer: str = ""
    """The answer to the study's question, in one sentence."""
    figure: AnswerFigure | None = None
    """The figure that it tells; None where nothing answers the question."""
    claims: str = ""
    """How many claims went which way."""
    caution: str = ""
    """The conditions whose speed beside the others says nothing of hardware."""
    steps: tuple[NextStep, ...] = ()
    verdicts: tuple[tuple[str, str, str, str], ...] = ()
    """Of each claim its name, the verdict, the statement, and why it cannot be tested here."""
    controls: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    document: str = ""
    url: str = ""
    """The place where the document can be read."""

    def html(self, chart: str = "") -> str:
        """The head with its chart between the finding and the verdicts."""
        counts = Counter(word for _, word, *_ in self.verdicts)
        facts = Table(("measured", ""), self.facts).html() if self.facts else ""
        return filled(
            "report_head.html", head=self, chart=Markup(chart), facts=Markup(facts),
            counted=", ".join(f"{number} {word}" for word, number in counts.items()),
        )  # fmt: skip


def head_of(
    study: Study, results: Results, verdicts: Sequence[Verdict], answer: str = "",
    figure: AnswerFigure | None = None,
) -> ReportHead:  # fmt: skip
    """The head of a report on these results."""
    paper = published.published(study.name) if study.name in published.names() else None
    return ReportHead(
        answer,
        figure,
        capital(finding([verdict.told() for verdict in verdicts])) if verdicts else "",
        _caution(results.asked.get("kernels", {}))
        or NOT_HARDWARE * bool(figure and figure.reach == GUESTS),
        next_steps(study, verdicts, [headline.claim for headline in headlines(study.name)]),
        tuple(
            (v.claim, v.verdict, v.statement, v.why if v.verdict == NOT_TESTABLE else "")
            for v in sorted(verdicts, key=lambda v: [*WENT].index(v.verdict))
        ),
        tuple(controls.said_of(results)),
        tuple((name, fact) for name, fact in _facts(study, results).items() if fact),
        paper.document if paper else "",
        paper.url if paper else "",
    )


def finding(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """How many claims went which way, and which was decided most clearly."""
    decisions = [v for v in verdicts if v["verdict"] in (HOLDS, CONTRADICTED, SAME)]
    counts = Counter(v["verdict"] for v in verdicts)
    texts = (f"{counts[w]} {words[counts[w] > 1]}" for w, words in WENT.items() if counts[w])
    head = f"of the document's {len(verdicts)} claims {', '.join(texts)}."
    if len(verdicts) == 1:
        head = f"the claim {WENT[verdicts[0]['verdict']][0]}."
    if not decisions:
        return head
    clear = min(decisions, key=_doubt)
    lead = "Decided" if len(decisions) == 1 else "Decided most clearly"
    return f'{head} {lead}: "{clear["statement"]}" {WENT[clear["verdict"]][0]} here.'


def _caution(kernels_of: Mapping[str, str]) -> str:
    names = kernels.beside_real(kernels_of)
    if not names:
        return ""
    few = ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} conditions"
    return f"Emulated: {few}. How fast these are beside the others is no finding."


def next_steps(
    study: Study, verdicts: Sequence[Verdict], first: Sequence[str] = ()
) -> tuple[NextStep, ...]:  # fmt: skip
    """The run that may decide a claim, best one of `first`, and where to find labs for others."""
    claims = [v for v in verdicts if v.verdict in (UNDECIDED, NOT_TESTABLE)]
    if verdicts and not claims:
        words = "Nothing is open. Measure your own hosts."
        return (NextStep(words, f"labkit run {study.name} --where lab.toml"),)
    steps, times = [], [(_minutes(v), v) for v in claims]
    if soon := [(minutes, v) for minutes, v in times if minutes]:
        minutes, best = min(soon, key=lambda s: (s[1].claim not in first, s[0], s[1].claim))
        longer = " Other claims take longer." * (len(soon) > 1)
        words = f'Measure longer: {span(minutes)} may decide "{best.statement}".{longer}'
        repeats = f'"until decided in {minutes} minutes"'
        steps.append(NextStep(words, f"labkit run {study.name} -p repeats={repeats}"))
    others = [v for minutes, v in times if not minutes]
    if any(v.form != NotHere.form for v in others):
        words = f"What cannot be decided here takes {_hosts_for(study, others)}. This lists them:"
        steps.append(NextStep(words, f"labkit studies {study.name} --deciders"))
    elif others and not steps:
        steps.append(NextStep(f"Nothing more to run, on any lab: {others[0].why}.", ""))
    return tuple(steps)


# Any of them may decide one claim and not another.
def _hosts_for(study: Study, verdicts: Sequence[Verdict]) -> str:
    names = {verdict.claim for verdict in verdicts}
    answers = [decider for claim in study.claims if claim.id in names
               for decider in deciders(study, claim)]  # fmt: skip
    kinds = dict.fromkeys(d.lab for d in answers if not d.why and d.lab != "box")
    return f"other hosts ({', '.join(kinds)})" if kinds else "other hosts"


# Of a new run, with as many blocks as there are and those that lack; 0 where that is too long.
def _minutes(verdict: Verdict) -> int:
    more = verdict.more or 0
    seconds = max((reason.seconds for reason in verdict.reasons), default=0.0)
    if not seconds or not 0 < more <= MOST_BLOCKS:
        return 0
    return math.ceil(seconds * (verdict.blocks + more) / more / 60)


# How wide the interval is beside how far the figure is from 1, which is no effect at all. Few
# blocks have none.
def _doubt(verdict: Mapping[str, Any]) -> float:
    effect, low, high = (verdict[key] for key in ("effect", "low", "high"))
    if figures := verdict["each"]:
        low, high = min(figures), max(figures)
    if not effect or not low or not high or min(effect, low, high) <= 0 or effect == 1:
        return math.inf
    return math.log(high / low) / abs(math.log(effect))


def _facts(study: Study, results: Results) -> dict[str, str]:
    runs = results.finished()
    versions = (run.facts.get("versions", {}).get("labkit", "") for run in runs)
    days = sorted({run.started[:16].replace("T", " ") for run in runs if run.started})
    return {
        "when": " to ".join(dict.fromkeys(days[:1] + days[-1:])) + " UTC" if days else "",
        "on": note(results) or "real hosts",
        "beside it": around.told(results),
        "hosts": "; ".join(_hosts(results)),
        "labkit": ", ".join(dict.fromkeys(filter(None, map(str, versions)))),
        "command": command(study, results),
    }


def _hosts(results: Results) -> list[str]:
    facts = results.asked.get("lab", {}).get("hosts", {})
    roles = defaultdict[str, list[str]](list)
    for role, host in facts.items():
        roles[", ".join(filter(None, (host.get("kernel", ""), host.get("cpu", ""))))].append(role)
    return [f"{', '.join(alike)} ({text})" for text, alike in roles.items()]


def command(study: Study, results: Results) -> str:
    """The command line that asks the same question again."""
    question, slots = results.asked, notebook.parameters(notebook.notebook(study.name))
    blocks = max((run.block for run in results.finished()), default=1)
    knobs = {"repeats": blocks, "seed": question.get("seed", 1), **question.get("workload", {}),
            **question.get("sizes", {})}  # fmt: skip
    words = [f"-p {name}={knobs[name]}" for name in slots if name in knobs]
    lab = str(question.get("where", "box"))
    place = [] if lab == "box" else ["--where", lab]
    return " ".join([join(["labkit", "run", study.name, *place]), *words])
