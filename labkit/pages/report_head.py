"""The head of a report, above everything: the finding, what it rests on, and how to repeat it."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import join
from typing import Any

from labkit import controls
from labkit.claims import published
from labkit.gates import around
from labkit.pages.tables import Table, chip, linked, safe
from labkit.results import Results, Run
from labkit.running import notebook
from labkit.running.open_lab import note
from labkit.study import Study
from labkit.verdict import (
    AGREES,
    CONTRADICTED,
    DIFFERS,
    HOLDS,
    NOT_TESTABLE,
    SAME,
    UNCLEAR,
    UNDECIDED,
    Verdict,
)

WENT = {
    HOLDS: ("holds", "hold"),
    CONTRADICTED: ("is contradicted", "are contradicted"),
    SAME: ("shows no difference", "show no difference"),
    UNDECIDED: ("is undecided", "are undecided"),
    NOT_TESTABLE: ("cannot be tested here", "cannot be tested here"),
}
"""The words for one claim and for several, for each verdict."""
BESIDE = {
    AGREES: ("agrees", "agree"), DIFFERS: ("differs", "differ"),
    UNCLEAR: ("is unclear", "are unclear"),
}  # fmt: skip


@dataclass(frozen=True)
class ReportHead:
    """One sentence, the verdict on each claim, the controls, and facts by name."""

    finding: str
    answer: str = ""
    """The answer to the study's question, in one sentence."""
    verdicts: tuple[tuple[str, str, str], ...] = ()
    """Of each claim its name, the verdict, and the statement."""
    controls: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    document: tuple[str, str] = ("", "")
    """Its title, and where it can be read."""

    def html(self, chart: str = "") -> str:
        """The head with its chart between the finding and the verdicts."""
        text = f'<p class="finding"><b>{safe(self.answer)}</b></p>' if self.answer else ""
        text += f"<p>{safe(self.finding)}</p>" if self.finding else ""
        text += f"<p>Document: {linked(*self.document)}</p>" if self.document[1] else ""
        return f"{text}{chart}{self._strip()}{self._facts()}{self._controls()}"

    def _strip(self) -> str:
        if not self.verdicts:
            return ""
        counts = Counter(word for _, word, _ in self.verdicts)
        text = ", ".join(f"{number} {word}" for word, number in counts.items())
        items = "".join(
            f"<li>{chip(word)} {safe(statement)} <small>{safe(name)}</small></li>"
            for name, word, statement in self.verdicts
        )
        return f'<h2>Verdicts: {safe(text)}</h2><ul class="chips">{items}</ul>'

    def _controls(self) -> str:
        if not self.controls:
            return ""
        lines = "".join(f"<li>{safe(line)}</li>" for line in self.controls)
        return f'<h2>Controls of this lab</h2><ul class="controls">{lines}</ul>'

    def _facts(self) -> str:
        return Table(("measured", ""), self.facts).html() if self.facts else ""


def head_of(
    study: Study, results: Results, verdicts: Sequence[Verdict], answer: str = ""
) -> ReportHead:  # fmt: skip
    """The head of a report on these results."""
    return ReportHead(
        finding([verdict.told() for verdict in verdicts]),
        answer,
        tuple((v.claim, v.verdict, v.statement) for v in verdicts),
        tuple(controls.said_of(results)),
        tuple((name, fact) for name, fact in _facts(study, results).items() if fact),
        _document(study),
    )


def finding(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """The finding: how many claims went which way, and which was decided most clearly."""
    decisions = [v for v in verdicts if v["verdict"] in (HOLDS, CONTRADICTED, SAME)]
    testable = [v for v in verdicts if v["verdict"] != NOT_TESTABLE]
    number = len(verdicts)
    claims = f"none of the {number} claims" if number > 1 else "the claim"
    if not testable:
        can = "can" if number > 1 else "cannot"
        return f"Found: {claims} {can} be tested on this lab.{_figures(verdicts)}"
    if not decisions:
        could = "could" if number > 1 else "could not"
        return f"Found: {claims} {could} be decided by so few runs.{_figures(verdicts)}"
    words = Counter(verdict["verdict"] for verdict in verdicts)
    text = ", ".join(f"{words[w]} {went[words[w] > 1]}" for w, went in WENT.items() if words[w])
    clear = min(decisions, key=_doubt)
    lead = "Decided" if len(decisions) == 1 else "Decided most clearly"
    return (
        f"Found: of {number} claims {text}. "
        f"{lead}: {clear['statement']}. This {WENT[clear['verdict']][0]}."
    )


# What was measured, where no verdict says so.
def _figures(verdicts: Sequence[Mapping[str, Any]]) -> str:
    counts = Counter(verdict["local"]["says"] for verdict in verdicts if verdict["local"])
    text = [
        f"{counts[says]} {words[counts[says] > 1]}"
        for says, words in BESIDE.items()
        if counts[says]
    ]
    return (
        f" Of the figures measured here, beside the document's, {', '.join(text)}." if text else ""
    )


def _document(study: Study) -> tuple[str, str]:
    if study.name not in published.names():
        return "", ""
    paper = published.published(study.name)
    return paper.document, paper.url


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
    days = sorted({run.started[:16].replace("T", " ") for run in runs if run.started})
    return {
        "when": " to ".join(dict.fromkeys(days[:1] + days[-1:])) + " UTC" if days else "",
        "on": note(results) or "real hosts",
        "beside it": around.told(results),
        "hosts": "; ".join(_hosts(results)),
        "labkit": ", ".join(_versions(runs)),
        "command": command(study, results),
    }


def _hosts(results: Results) -> list[str]:
    facts = results.asked.get("lab", {}).get("hosts", {})
    texts = {role: ", ".join(filter(None, (host.get("kernel", ""), host.get("cpu", ""))))
             for role, host in facts.items()}  # fmt: skip
    alike = dict.fromkeys(texts.values())
    return [
        f"{', '.join(role for role in texts if texts[role] == text)} ({text})" for text in alike
    ]


def _versions(runs: Sequence[Run]) -> list[str]:
    versions = (run.facts.get("versions", {}).get("labkit", "") for run in runs)
    return list(dict.fromkeys(filter(None, map(str, versions))))


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
