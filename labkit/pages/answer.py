"""The answer to a study: its notebook run to the end, the verdicts, and where everything lies."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from labkit import kernels
from labkit.errors import LabkitError, readable
from labkit.gates import watch
from labkit.judging import judged
from labkit.judging.finding import answer_text, find_figure
from labkit.machine.places import out
from labkit.machine.units import figure
from labkit.machine.units import shown as shown_unit
from labkit.pages.report_head import NOT_HARDWARE, ReportHead, head_of
from labkit.pages.terminal import narrow_table, paragraph, table
from labkit.results import IMPORTS, Results
from labkit.running import notebook
from labkit.running.open_lab import check_parameters, is_stored, note, stored_results
from labkit.running.remarks import remarks
from labkit.runs import bundle
from labkit.runs.overhead import overhead
from labkit.runs.progress import Progress
from labkit.statistics.estimate import estimated
from labkit.statistics.interval import Interval, within
from labkit.statistics.percentiles import PERCENTILES, count, intervals, tail_note
from labkit.statistics.quantity import Quantity
from labkit.study import Reading, Study
from labkit.verdict import Verdict, looked, one_risk

HEADS = {50.0: "median"}


@dataclass(frozen=True)
class Answer:
    """The output of `labkit run --json`."""

    study: str
    where: str
    answer: str
    """The answer in one sentence."""
    note: str
    results: str
    notebook: str
    report: str
    rows: list[dict[str, Any]]
    verdicts: list[dict[str, Any]]
    runs: list[str]
    remarks: list[str]
    cost: str
    """The time that the finished runs took beside their measuring."""
    controls: list[str] = field(default_factory=list)
    """The results of the lab's controls, a sentence each."""
    emulated: bool = False
    """Whether some of it was measured where other things stand for hardware."""

    def insist(self) -> None:
        """Raise if most runs were lost; stored results were measured before, and judged only."""
        if not is_stored(self.where):
            watch.insist(Results.open(Path(self.results)))


def answer(
    study: Study, words: Mapping[str, str], say: Callable[[str], None],
    tell: Callable[[Progress], None], *, target: Path | None = None,
    keeps: tuple[int, ...] = (), temporary: Path | None = None,
) -> Answer:  # fmt: skip
    """Run the study's notebook with these parameters, and read what it found.

    `say` hears what is being done, and `tell` how far the study has come. The notebook and its
    report lie at `target`, if one is named; `keeps` and `temporary` are those of `Rerun`.
    """
    source = notebook.notebook(study.name)
    values = notebook.read_parameters(source, words)
    check_parameters(study, values)
    draft = out() / "reports" / f"{study.name}-{values['label']}.ipynb"
    say(f"running {source.name} on {values['where']}")
    rerun = notebook.Rerun(source, target or draft, values, keeps=keeps, temporary=temporary)
    beside = ThreadPoolExecutor(1)
    write_report = beside.submit(_report_writer)
    if is_stored(place := str(values["where"])):
        beside.submit(_read_ahead, study, place)
    try:
        rerun.execute(tell, say)
    finally:
        beside.shutdown(wait=False)  # whoever stops it waits for no import
    say("writing the report")
    results_of_run = rerun.results and Results.open(rerun.results)
    results = results_of_run or stored_results(study.name, place)
    if target is None:  # which results they are is known now
        target = draft.rename(draft.with_stem(f"{draft.stem}-{bundle.mark(results.path)}"))
    reading = Reading.of(study, results)
    verdicts = judged(reading)
    figure = find_figure(reading, verdicts)
    head = head_of(study, results, verdicts, answer_text(reading, figure), figure)
    write_report.result()(target, target.with_suffix(".html"), head)
    return _read(study, results, verdicts, head, target, place)


# What reports need takes two seconds to load, so it is loaded while the notebook runs.
def _report_writer() -> Callable[[Path, Path, ReportHead], None]:
    from labkit.pages.report import get_ready, write

    get_ready()
    return write


# What is wrong with results is said where they are needed.
def _read_ahead(study: Study, place: str) -> None:
    with suppress(LabkitError):
        _rows(study, stored_results(study.name, place))


def report_of(study: str, label: str, path: Path) -> Path:
    """The report of the results that lie at `path`; no others have one of this name."""
    return out() / "reports" / f"{study}-{label}-{bundle.mark(path)}.html"


def given(study: str, place: str, question: Mapping[str, Any], label: str) -> dict[str, str]:
    """The notebook's parameters: these results, and the load that was measured, not its own."""
    slots = notebook.parameters(notebook.notebook(study))
    knobs = {**question.get("workload", {}), **question.get("sizes", {})}
    load = {name: str(value) for name, value in knobs.items() if name in slots}
    return {**load, "where": place, "label": label}


def _read(
    study: Study, results: Results, verdicts: Sequence[Verdict], head: ReportHead, target: Path,
    place: str,
) -> Answer:  # fmt: skip
    return Answer(
        study=study.name, where=place, answer=head.answer, note=note(results),
        results=str(results.path), notebook=str(target), report=str(target.with_suffix(".html")),
        rows=_rows(study, results), verdicts=[verdict.told() for verdict in verdicts],
        runs=[str(run.path) for run in results.runs()], remarks=remarks(study, results),
        controls=list(head.controls), cost=str(overhead(results)), emulated=_is_emulated(results),
    )  # fmt: skip


# Of a lab that runs all by its own kernel nothing is emulated.
def _is_emulated(results: Results) -> bool:
    lab, on = results.asked["lab"], results.asked.get("kernels", {})
    if lab["tier"] in ("hosts", IMPORTS):
        return False
    return any(map(kernels.is_emulated, on.values())) if on else lab["accelerator"] != "kvm"


def _rows(study: Study, results: Results) -> list[dict[str, Any]]:
    rows, losses, by_condition = [], Counter[str](), study.blocks(results)
    for run in results.finished():
        losses[run.condition] += sum(row["lost"] for row in run.rows)
    single = all(count(blocks) == len(blocks) for blocks in by_condition.values())
    for condition, blocks in by_condition.items():
        # What gives one figure a run has no tail: its mean is shown, as `report --against` does.
        estimates: dict[float | None, Interval] = (
            {None: estimated(Quantity("'runs'", "mean"), {"runs": blocks}).interval()} if single
            else dict(zip(PERCENTILES, intervals(blocks, PERCENTILES), strict=True))
        )  # fmt: skip
        rows += [
            {"condition": condition, "metric": study.metric, "unit": study.unit,
             "percentile": q, "blocks": len(blocks),
             "n": sum(len(values) for values in blocks.values()), "lost": losses[condition],
             **asdict(estimate), "low": estimate.least, "high": estimate.most}
            for q, estimate in estimates.items()
        ]  # fmt: skip
    return rows


def rendered(study: Study, facts: Answer) -> str:
    """The answer for a terminal: the percentiles, the verdicts, the files."""
    parts = [
        study.title,
        paragraph(facts.answer),
        paragraph(f"{facts.note}. {NOT_HARDWARE * facts.emulated}".rstrip()) if facts.note else "",
        "\n".join(map(paragraph, facts.controls)),
        _describe_figures(study, facts.rows),
        _judge(facts.verdicts),
        one_risk(v["among"] for v in facts.verdicts),
        looked((v["looks"], v["spent"]) for v in facts.verdicts),
        "\n".join(map(paragraph, facts.remarks)),
        f"notebook  {facts.notebook}\nreport    {facts.report}\nruns      {facts.results}\n"
        f"cost      {facts.cost}",
    ]
    return readable("\n\n".join(part for part in parts if part))


# The figure and the reasons share the column that wraps.
def _judge(verdicts: Sequence[Mapping[str, Any]]) -> str:
    rows: list[tuple[str, str, str]] = []
    for v in verdicts:
        first, *others = [text for text in (v["measured"], v["why"]) if text] or [""]
        rows += [(v["claim"], v["verdict"], first), *(("", "", text) for text in others)]
    return table(rows, ["claim", "verdict", "what was measured here, and why"])


def _describe_figures(study: Study, rows: Sequence[Mapping[str, Any]]) -> str:
    cells: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        cells[row["condition"]].append(_cell(row))
    single = any(row["percentile"] is None for row in rows)
    document = {} if single else _document(study)
    last = ["document's median"] * any(name in document for name in cells)
    heads = ["mean of the runs"] if single else [HEADS.get(q, f"{q:g} %") for q in PERCENTILES]
    lines = [(name, *figures, *(document.get(name, "-") for _ in last))
             for name, figures in cells.items()]  # fmt: skip
    title = study.metric if study.unit == "1" else f"{study.metric}, {shown_unit(study.unit)}"
    page = narrow_table(lines, [title, *heads, *last])
    losses = {(r["condition"], r["n"], r["lost"]) for r in rows if r["lost"]}
    for name, answers, loss in sorted(losses):
        page += f"\n{name}: {loss} of {answers + loss} requests got no answer"
    noun = "blocks" if single else "samples or blocks"
    page += f"\n(in brackets the 95 % interval, or few blocks; ~ marks too few {noun})"
    if any(row["enough"] and not row["each"] and None in (row["low"], row["high"]) for row in rows):
        page += "\n(> and <: so few blocks set no limit on the other side)"
    # Of the condition with the fewest samples; the others lack less.
    fewest = 0 if single else min((r["n"] for r in rows), default=0)
    notes = [*filter(None, (tail_note(q, fewest) for q in PERCENTILES if fewest))]
    remark = "; higher percentiles need more" if len(notes) > 1 else ""
    return "\n".join([page, *(paragraph(f"{note}{remark}") for note in notes[:1])])


def _cell(row: Mapping[str, Any]) -> str:
    if not row["enough"]:
        return f"~{figure(row['value'])}"
    return f"{figure(row['value'])} ({within(row['each'], row['low'], row['high'], figure)})"


def _document(study: Study) -> dict[str, str]:
    return {
        row["condition"]: row["value"]
        for row in study.published()
        if row["statistic"] == "median" and row["metric"] == "response_time"
    }
