"""Evidence: the results that claims are judged by, and what each claim of a study comes to there.

Of several results of one lab those with the most valid blocks are judged; the others are named.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from labkit import controls, imports, kernels, studies
from labkit.claim import Claim, NotHere
from labkit.claims import published as claims
from labkit.errors import BadInput, LabkitError, Unknown
from labkit.judging import judged
from labkit.judging.finding import sentence
from labkit.machine.units import shown
from labkit.pages.score_line import Evidence, Judgements, ScoreLine, best
from labkit.reason import Reason, What
from labkit.results import IMPORTS, Results
from labkit.running import measured
from labkit.runs import bundle, looks
from labkit.runs.index import of_study
from labkit.study import Reading
from labkit.verdict import UNDECIDED, Verdict


def gather(
    judgements: Judgements, paths: Iterable[Path], study: str = "", margin: float | None = None
) -> Judgements:  # fmt: skip
    """Read what these paths hold, and judge one study or all; what is known stays so."""
    names = claims.names()
    if study and study not in names:
        raise Unknown("study with claims", study, names)
    studies_asked = [study] if study else names
    complete = _with_claims(judgements, names)
    pool, unread = {**judgements.evidence}, {**judgements.unread}
    for path in (path for path in of_study(paths, study) if str(path) not in pool):
        try:
            pool[str(path)] = _look(path, complete.untested)
        except LabkitError as error:
            unread[str(path)] = error.what
    # The next best of a lab steps in for what cannot be judged.
    while waiting := [x for x in best(pool.values(), studies_asked) if x.lines is None]:
        for evidence in waiting:
            try:
                lines = tuple(_judge(evidence, margin))
                pool[evidence.path] = replace(evidence, lines=lines)
            except LabkitError as error:
                unread[evidence.path] = error.what
                del pool[evidence.path]
    return replace(complete, evidence=pool, unread=unread)


# A study or a file of claims that cannot be read takes no other down.
def _with_claims(judgements: Judgements, names: Iterable[str]) -> Judgements:
    lines_of, refusals = {**judgements.untested}, {**judgements.refused}
    for name in names:
        try:
            if name not in lines_of and name not in refusals:
                about = _about(name)
                lines_of[name] = tuple(_line(c.not_testable(_not_yet(c, name)), c, about)
                                       for c in claims.of(name))  # fmt: skip
                if name in studies.names():
                    studies.find(name)
        except BadInput as odd:
            refusals[name] = odd.what
    return replace(judgements, untested=lines_of, refused=refusals)


# Of no study that is judged: that is known too.
def _look(path: Path, names: Collection[str]) -> Evidence:
    results = Results.open(path if path.is_dir() else bundle.open_bundle(path))
    study = results.judged_as
    if study not in names or results.study not in (*studies.names(), imports.STUDY):
        return Evidence(str(path), str(results.path))
    results = results.read_once()
    moment = max((run.started for run in results.runs()), default="")
    moment = moment or str(results.asked.get("imported", ""))
    blocks = looks.blocks(results)
    return Evidence(str(path), str(results.path), study, _lab_of(results), blocks, moment)


# Other CPUs are another lab, whatever its name is; nobody knows the hosts of what was imported.
def _lab_of(results: Results) -> str:
    lab = results.asked.get("lab", {})
    hosts = lab.get("hosts", {}).values()
    cpus = sorted({str(host.get("cpu", "")) for host in hosts if isinstance(host, dict)})
    alone = str(results.path) if lab.get("tier") == IMPORTS else ""
    scale = results.asked.get("scale", "")
    return json.dumps([lab.get("name", ""), lab.get("tier", ""), scale, cpus, alone])


# A line for each claim of its study.
def _judge(evidence: Evidence, margin: float | None) -> list[ScoreLine]:
    study, results = evidence.study, Results.open(Path(evidence.folder)).read_once()
    claims_of = {claim.id: claim for claim in claims.of(study)}
    verdicts, answer = _verdicts(results, claims_of, margin)
    lab, on = results.asked.get("lab", {}), results.asked.get("kernels", {})
    scale = f", scale {results.asked['scale']}" if "scale" in results.asked else ""
    about = {
        **_about(study), "lab": f"{lab.get('name', '')}{scale}", "tier": str(lab.get("tier", "")),
        "evidence": evidence.folder, "when": evidence.when, "answer": answer,
        "controls": " ".join(controls.said_of(results)), "runs": len(results.finished()),
        "blocks": evidence.blocks,
    }  # fmt: skip
    kernel_of = {n: ", ".join(kernels.labels(c.names(), on)) for n, c in claims_of.items()}
    return [_line(v, claims_of[v.claim], {**about, "kernel": kernel_of[v.claim]})
            for v in verdicts]  # fmt: skip


def _verdicts(
    results: Results, claims_of: Mapping[str, Claim], margin: float | None
) -> tuple[list[Verdict], str]:
    if looks.unfinished(results):  # a look at them would take of the risk, and tell little
        partly = Reason(What.UNFINISHED)
        return [replace(c.not_testable(partly), verdict=UNDECIDED) for c in claims_of.values()], ""
    if results.study == imports.STUDY:
        verdicts = [v for v in measured.judged(results, margin) if v.claim in claims_of]
        return [
            v.also(Reason(What.IMPORT_TOGETHER))
            if any(reason.what is What.NOT_MEASURED for reason in v.reasons) else v
            for v in verdicts
        ], ""  # fmt: skip
    reading = Reading.of(studies.find(results.study), results)
    verdicts = [v for v in judged(reading, margin) if v.claim in claims_of]
    return verdicts, sentence(reading, verdicts)


def _about(study: str) -> dict[str, Any]:
    paper = claims.published(study)
    return {"document": paper.document, "study": study, "url": paper.url, "blocks": 0}


def _not_yet(claim: Claim, study: str) -> Reason:
    if isinstance(claim, NotHere):
        return Reason(What.DECLARED, said=claim.why)
    if study in studies.names():
        return Reason(What.UNMEASURED, said=study)
    paper = claims.published(study)
    metric = claim.metric or paper.metric
    of = ", in ".join(filter(None, (metric, shown(paper.units.get(metric, "")))))
    return Reason(What.NO_STUDY, (study, *claim.names()), of)


# What its comparisons were decided by before is of no use to a reader.
def _line(verdict: Verdict, claim: Claim, about: Mapping[str, Any]) -> ScoreLine:
    of_claim = {"dispute": claim.dispute, "prints": claim.prints}
    return ScoreLine(**{**vars(verdict), "comparisons": {}, **of_claim, **about})
