"""Faults of stored results at a glance: for every reader, not for `verify` alone.

Checksums of raw texts take their time, and are left to `labkit results verify`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from labkit.machine import records
from labkit.results import Results, Run

STUDY = "../../study.json"
QUICK = (STUDY, "run.json")
"""The files that say what was measured: small, and read by all."""
EDIT_REMARK = "study.json was edited since, so do not trust its labels"
ASK = "see all with `labkit results verify`"


def remarks(results: Results) -> list[str]:
    """List what to know before trusting a figure, a sentence each; empty if all is well."""
    runs, unreadable = results.readable()
    gaps = [f"{a}" if a == b else f"{a} to {b}" for a, b in results.gaps()]
    texts = [
        *unreadable.values(),
        *(f"what was measured as number {gap} is gone" for gap in gaps),
        *copies(runs),
        *(f"{run.path.name}: {file.name} is a link, and not part of the run"
          for run in runs for file in (run.path / "raw").glob("*") if file.is_symlink()),
        *_find_edits(runs), *_find_mixture(runs),
    ]  # fmt: skip
    return [*texts, ASK] if texts else []


def edited(results: Results) -> bool:
    """Whether what says on which lab all was measured is not what was written then."""
    return any(change == EDIT_REMARK for change in _find_edits(results.readable()[0]))


# Once for all runs, as they share study.json.
def _find_edits(runs: list[Run]) -> Iterator[str]:
    files = {run.path.name: records.listed(run.path) for run in runs if run.path.is_dir()}
    if bare := [name for name, sums in files.items() if not sums]:
        yield f"{bare[0]}: {records.SUMS} is gone, so changes cannot be detected"
    odd: dict[str, list[str]] = {name: [] for name in QUICK}
    for run in runs:
        for name, digest in files.get(run.path.name, {}).items():
            file = run.path / name
            if name in QUICK and not (file.is_file() and records.digest(file) == digest):
                odd[name].append(run.path.name)
    if odd[STUDY]:
        yield EDIT_REMARK
    if odd["run.json"]:
        yield f"runs edited since: {len(odd['run.json'])}, such as {odd['run.json'][0]}"


# No two runs begin in the same millisecond at the same place.
def copies(runs: list[Run]) -> Iterator[str]:
    """Name each measurement that is there several times, a sentence each."""
    counts = Counter((run.condition, run.block, run.order, run.started) for run in runs
                   if run.started and run.state == "finished")  # fmt: skip
    for (condition, block, order, _), times in counts.items():
        if times > 1:
            yield f"run {order} ({condition}, block {block}) is there {times} times: it was copied"
    paths_once = {run.path for run in first_of_each(runs)}
    for run in runs:
        if run.path not in paths_once:
            yield f"{run.path.name} holds the same measurement as a run before it; it counts once"


def first_of_each(runs: Sequence[Run]) -> list[Run]:
    """The runs without those that hold what a run of the same condition before them holds.

    Files of another tool were once taken several times; a measurement of ours says when it began.
    """
    keys: set[tuple[object, ...]] = set()
    firsts = []
    for run in runs:
        key = (run.condition, run.started, *sorted(run.raw.values()))
        if run.started or not run.raw or key not in keys:
            firsts.append(run)
        keys.add(key)
    return firsts


# One condition is one design: what somebody edited between two runs makes them another.
def _find_mixture(runs: list[Run]) -> Iterator[str]:
    settings: dict[str, dict[str, str]] = {}
    odd = set()
    for run in runs:
        if run.state == "finished":
            first = settings.setdefault(run.condition, {**run.settings})
            odd |= {(run.condition, thing) for thing in first.keys() | run.settings
                    if first.get(thing) != run.settings.get(thing)}  # fmt: skip
    for condition, thing in sorted(odd):
        yield f"the runs of {condition} are of different designs: {thing} is not the same in all"
