"""The head of a report, above everything: the finding, what it rests on, and how to repeat it."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import join
from typing import Any

from markupsafe import Markup

from labkit import controls, kernels
from labkit.claim import NotHere
from labkit.claims import published
from labkit.gates import around
from labkit.judging.finding import headlines
from labkit.pages.filled import filled
from labkit.pages.tables import Table
from labkit.reason import span
from labkit.results import Results
from labkit.running import notebook
from labkit.running.open_lab import note
from labkit.statistics.percentiles import MOST_BLOCKS
from labkit.study import Study
from labkit.verdict import (
    CONTRADICTED,
    HOLDS,
    NOT_TESTABLE,
    SAME,
    UNDECIDED,
    Verdict,
)

WENT = {
    HOLDS: ("holds", "hold"),
    CONTRADICTED: ("is contradicted", "are contradicted"),
    SAME: ("shows no difference", "show no difference"),
    UNDECIDED: ("needs more repeats", "need more repeats"),
    NOT_TESTABLE: ("cannot be tested here", "cannot be tested here"),
}
"""The words for one claim and for several, for each verdict."""


@dataclass(frozen=True)
class NextStep:
    """A step that readers can take about claims that are open, and the command for it."""

    words: str
    command: str


@dataclass(frozen=True)
class ReportHead:
    """One sentence, the verdict on each claim, the controls, and facts by name."""

    finding: str
    answer: str = ""
    """The answer to the study's question, in one sentence."""
    caution: str = ""
    """The conditions whose speed beside the others says nothing of hardware."""
    step: NextStep | None = None
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
    study: Study, results: Results, verdicts: Sequence[Verdict], answer: str = ""
) -> ReportHead:  # fmt: skip
    """The head of a report on these results."""
    paper = published.published(study.name) if study.name in published.names() else None
    return ReportHead(
        finding([verdict.told() for verdict in verdicts]),
        answer,
        _caution(results.asked.get("kernels", {})),
        next_step(study.name, verdicts, [headline.claim for headline in headlines(study.name)]),
        tuple(
            (v.claim, v.verdict, v.statement, v.why if v.verdict == NOT_TESTABLE else "")
            for v in sorted(verdicts, key=_place)
        ),
        tuple(controls.said_of(results)),
        tuple((name, fact) for name, fact in _facts(study, results).items() if fact),
        paper.document if paper else "",
        paper.url if paper else "",
    )


def finding(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """The finding: how many claims went which way, and which was decided most clearly."""
    decisions = [v for v in verdicts if v["verdict"] in (HOLDS, CONTRADICTED, SAME)]
    text = _count((v["verdict"] for v in verdicts), WENT)
    head = f"Found: of {len(verdicts)} claims {text}."
    if len(verdicts) == 1:
        head = f"Found: the claim {WENT[verdicts[0]['verdict']][0]}."
    if not decisions:
        return head
    clear = min(decisions, key=_doubt)
    lead = "Decided" if len(decisions) == 1 else "Decided most clearly"
    return f'{head} {lead}: "{clear["statement"]}" {WENT[clear["verdict"]][0]} here.'


# Where all are emulated, or none, they may be compared with each other.
def _caution(kernels_of: Mapping[str, str]) -> str:
    names = [name for name, kernel in kernels_of.items() if kernels.is_emulated(kernel)]
    if len(names) in (0, len(kernels_of)):
        return ""
    return f"Emulated: {', '.join(names)}. How fast these are beside the others is no finding."


def next_step(
    study: str, verdicts: Sequence[Verdict], first: Sequence[str] = ()
) -> NextStep | None:  # fmt: skip
    """The run that may decide a claim, best one of `first`, else where to find labs that can."""
    undecided = [v for v in verdicts if v.verdict == UNDECIDED and v.more]
    if times := [(time, v.claim, v.statement) for v in undecided if (time := _minutes(v))]:
        minutes, claim, statement = min(times, key=lambda time: (time[1] not in first, time))
        repeats = f'"until decided in {minutes} minutes"'
        words = f'Next: a run of about {span(minutes)} may decide {claim}, "{statement}":'
        return NextStep(words, f"labkit run {study} -p repeats={repeats}")
    if undecided:
        words = f"Next: not even {MOST_BLOCKS} repeats more would decide. See which labs can:"
    elif any(v.verdict == NOT_TESTABLE and v.form != NotHere.form for v in verdicts):
        words = "Next: see which labs can test the claims that this one cannot:"
    elif any(v.verdict == NOT_TESTABLE for v in verdicts):
        return NextStep("Next: nothing to run, as no lab can test what is open.", "")
    else:
        return None
    return NextStep(words, f"labkit studies {study} --deciders")


# Of a new run, with as many blocks as there are and those that lack; 0 where that is too long.
def _minutes(verdict: Verdict) -> int:
    more = verdict.more or 0
    seconds = max((reason.seconds for reason in verdict.reasons), default=0.0)
    if not seconds or more > MOST_BLOCKS:
        return 0
    return math.ceil(seconds * (verdict.blocks + more) / more / 60)


# What is decided comes first.
def _place(verdict: Verdict) -> int:
    return [*WENT].index(verdict.verdict)


def _count(said: Iterable[str], words: Mapping[str, tuple[str, str]]) -> str:
    counts = Counter(said)
    return ", ".join(f"{counts[w]} {text[counts[w] > 1]}" for w, text in words.items() if counts[w])


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
