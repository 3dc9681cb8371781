"""Values of stored runs, read again from their raw text: by metric, condition and block."""

import re
from collections import defaultdict
from dataclasses import replace

from labkit import imports
from labkit.claims import published
from labkit.claims.judged_as import Claimed, with_claimed
from labkit.errors import ResultsError
from labkit.judging import judge
from labkit.judging.finding import HARDWARE, local_figure
from labkit.results import Results, Run
from labkit.running.comparing import study_of
from labkit.runs import looks
from labkit.runs.integrity import first_of_each
from labkit.statistics.pooled import Values
from labkit.verdict import Verdict
from labkit.workload import Sample

Measured = dict[str, dict[int, Values]]
RAW = re.compile(r"import-(\w+)\.txt")


def samples(results: Results, run: Run) -> list[Sample]:
    """Everything that one run measured; of imported ones first what claims ask of it."""
    if results.study != imports.STUDY:
        return study_of(results).samples(run)
    return with_claimed(Claimed.of(results.asked), run.condition, _read(results, run))


def main_metric(results: Results) -> str:
    """The metric that a study is about; of imported results the first one."""
    if results.study != imports.STUDY:
        return study_of(results).metric
    for run in results.finished():
        return samples(results, run)[0].metric
    raise ResultsError(f"{results.path} has no finished run")


def of_metric(results: Results, metric: str) -> Measured:
    """Condition -> block -> values of one metric, of the finished runs."""
    values: Measured = defaultdict(dict)
    for run in first_of_each(results.finished()):
        for sample in samples(results, run):
            if sample.metric == metric:
                values[run.condition][run.block] = sample.values
    return dict(values)


def judged(results: Results, margin: float | None = None) -> list[Verdict]:
    """A verdict on each claim of the study that these runs are of, or were imported as."""
    if results.study != imports.STUDY:
        return judge(study_of(results), results, margin)
    if (claims_of := Claimed.of(results.asked)) is None:
        return []
    looks_taken, before = looks.look(results), looks.histories(results)
    values = of_claims(results)
    made = claims_of.judge(values, looks_taken, margin, before)
    verdicts = [
        replace(verdict, local=local_figure(claim, verdict, values, {}, HARDWARE))
        for claim, verdict in zip(published.of(claims_of.study), made, strict=True)
    ]
    if margin is None:
        looks.remember(results, (v.comparisons for v in verdicts))
    return verdicts


def of_claims(results: Results) -> Measured:
    """Values of imported runs by the names that claims have for them, as in `Study.measured`."""
    claims_of, values = Claimed.of(results.asked), defaultdict[str, dict[int, Values]](dict)
    if claims_of:
        for run in first_of_each(results.finished()):
            for name, sample in claims_of.by_name(run.condition, _read(results, run)).items():
                values[name][run.block] = sample.values
    return dict(values)


def lacking(results: Results) -> list[str]:
    """The names that claims on imported runs use and no run has measured."""
    names = [name for claim in published.of(results.judged_as) for name in claim.names()]
    values = of_claims(results)
    return [name for name in dict.fromkeys(names) if name not in values]


# What other tools reported, by their own names; each text is called after its tool.
def _read(results: Results, run: Run) -> list[Sample]:
    usual = str(results.asked.get("workload", {}).get("name", ""))
    tools = {name: match[1] if (match := RAW.fullmatch(name)) else usual for name in run.raw}
    return [sample for name, tool in tools.items()
            for sample in imports.find(tool).read(run.text(name))]  # fmt: skip
