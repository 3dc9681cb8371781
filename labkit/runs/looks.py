"""Looks at results: each time they are judged at more blocks than before, that is written down.

`looks.json` lies beside study.json, with its own checksum. It says of each comparison at how many
blocks it was looked at, and when it was decided, which it stays. Every run says how many looks
there had been when it began. A second list, beside all results of a machine, knows looks by the
runs that they were at: so those at deleted, copied or imported results are counted again. A run
with another seed or design that was put among the others is named.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from labkit.errors import ResultsError
from labkit.machine import records
from labkit.results import Results, Run
from labkit.statistics.pooled import FEWEST_BLOCKS
from labkit.statistics.spending import History

FILE = "looks.json"
UNFINISHED_FILE = "unfinished"
"""A file that is there while runs of a study are still to be made."""
FORMAT = 1
MOST_LOOKS = 1000
QUESTION = "../../study.json"


@dataclass(frozen=True)
class GivenUp:
    """Reason why a claim was not measured until it was decided, and the blocks that it had then."""

    blocks: int
    why: str


def taken(results: Results) -> tuple[int, ...]:
    """The blocks that there were at each look so far; refused if some of the looks are gone."""
    file, runs = results.path / FILE, results.runs()
    looks = tuple(sorted({*_read(results)["blocks"], *_ledger_looks(results, runs)}))
    latest = max(runs, key=lambda run: run.looks, default=None)
    if latest and latest.looks > len(looks):
        taken_before = f"{latest.looks} had been taken before {latest.path.name}"
        problem = f"{file}: looks were deleted: {taken_before}, and {len(looks)} are kept"
        hint = "put the file back from a copy; without it verdicts would be wrong too often"
        raise ResultsError(problem, hint=hint)
    _insist_on_one_question(results, runs)
    return looks


def look(results: Results) -> tuple[int, ...]:
    """Add the look that is taken now to those `taken`; it is written down if that can be."""
    before, count = taken(results), blocks(results)
    # Of fewer there is no verdict, whatever they show.
    if count < FEWEST_BLOCKS or (before and before[-1] >= count):
        return before
    if ledger := _ledger(results):
        line = {"blocks": count, "runs": _print(results.finished())}
        with suppress(OSError):
            ledger.parent.mkdir(exist_ok=True)
            with ledger.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    _change(results, blocks=[*before, count], at=[*_read(results)["at"], at][-len(before) - 1 :])
    return (*before, count)


def histories(results: Results) -> dict[str, History]:
    """The looks at each comparison that was judged before, and what was decided at them."""
    comparisons = _read(results).get("comparisons", {})
    return {key: History(**{**h, "looks": tuple(h["looks"])}) for key, h in comparisons.items()}


def remember(results: Results, judged: Iterable[Mapping[str, History]]) -> None:
    """Keep the looks at the comparisons of each verdict."""
    before = histories(results)
    comparisons = before | {key: history for of in judged for key, history in of.items()}
    if comparisons != before and _read(results)["blocks"]:
        _change(results, comparisons={key: asdict(h) for key, h in comparisons.items()})


def give_up(results: Results, claims: Mapping[str, GivenUp]) -> None:
    """Keep which claims were given up at the last look, in place of those before."""
    if given_up(results) != claims:
        _change(results, given_up={name: asdict(claim) for name, claim in claims.items()})


def given_up(results: Results) -> dict[str, GivenUp]:
    """The claims that were given up, and why; none where nothing was given up."""
    claims = _read(results).get("given_up", {})
    return {name: GivenUp(claim["blocks"], claim["why"]) for name, claim in claims.items()}


def blocks(results: Results) -> int:
    """The number of blocks that a verdict can rest on."""
    return len({run.block for run in results.finished()})


def unfinished(results: Results) -> bool:
    """Whether runs that were asked for are still to be made."""
    return (results.path / UNFINISHED_FILE).exists()


def set_unfinished(results: Results, *, unfinished: bool) -> None:
    """Note that runs are still to be made, or that all are."""
    file = results.path / UNFINISHED_FILE
    with records.keeping(f"what is to be measured in {results.path}"):
        file.touch() if unfinished else file.unlink(missing_ok=True)


# What was unpacked to read never grows, and other results may lie where nothing can be written.
def _change(results: Results, **fields: Any) -> None:
    if "bundles" in results.path.parts[:-1] or not os.access(results.path, os.W_OK):
        return
    record = {**_read(results), **fields, "format": FORMAT}
    record["sum"] = _sum(record)
    with suppress(OSError):
        records.write(results.path / FILE, records.pretty(record))


def _sum(record: Mapping[str, Any]) -> str:
    content = {key: value for key, value in record.items() if key != "sum"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# Beside the results of all studies; only where results lie as labkit puts them.
def _ledger(results: Results) -> Path | None:
    above = results.path.absolute().parents
    usual = len(above) > 2 and above[1].name == "results"
    return above[2] / "looks" / f"{above[0].name}.jsonl" if usual else None


def _print(runs: Iterable[Run]) -> list[str]:
    texts = {json.dumps(sorted(run.raw.values())) for run in runs}
    return sorted(hashlib.sha256(text.encode()).hexdigest()[:12] for text in texts)


# Earlier looks at runs that are all among these: at these results, a copy, or an earlier import.
def _ledger_looks(results: Results, runs: Sequence[Run]) -> list[int]:
    ledger, looks = _ledger(results), []
    if ledger is None or not ledger.is_file():
        return []
    prints = {*_print(run for run in runs if run.state == "finished")}
    for line in ledger.read_text("utf-8", errors="replace").splitlines():
        with suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            if entry["runs"] and prints.issuperset(entry["runs"]):
                looks.append(int(entry["blocks"]))
    return looks


def _read(results: Results) -> dict[str, Any]:
    file = results.path / FILE
    if not file.exists():
        return {"format": FORMAT, "blocks": [], "at": []}
    content = records.read_json(file)
    looks, at, claims = content.get("blocks"), content.get("at"), content.get("given_up", {})
    sound = (
        content.get("format") == FORMAT and isinstance(looks, list) and isinstance(at, list)
        and len(at) <= len(looks) <= MOST_LOOKS and bool(looks or claims)
        and all(type(number) is int and number > 0 for number in looks)
        and all(a < b for a, b in pairwise(looks))
        and isinstance(claims, dict) and all(map(_is_given_up, claims.values()))
        and _is_history(content.get("comparisons", {}))
    )  # fmt: skip
    if not sound:
        hint = "each look is at more blocks than the one before; put it back from a copy"
        problem, blocks_read = f"{file}: is not a list of looks", str(looks)[:80]
        raise ResultsError(problem, said=f"its blocks are {blocks_read}", hint=hint)
    if content.get("sum", _sum(content)) != _sum(content):
        problem = f"{file}: has changed since it was written (its checksum differs)"
        raise ResultsError(problem, hint="put it back from a copy")
    return content


def _is_history(histories: object) -> bool:
    return isinstance(histories, dict) and all(
        isinstance(history, dict) and history.keys() == History.__dataclass_fields__.keys()
        and isinstance(history["looks"], list) and all(type(n) is int for n in history["looks"])
        and isinstance(history["crossed"], str) and type(history["at"]) is int
        and isinstance(history["counted"], int | float)
        for history in histories.values()
    )  # fmt: skip


def _is_given_up(value: object) -> bool:
    return (isinstance(value, dict) and type(value.get("blocks")) is int
            and isinstance(value.get("why"), str))  # fmt: skip


# The checksums of a run hold that of the question that it was made for; most runs are of their own.
def _insist_on_one_question(results: Results, runs: Sequence[Run]) -> None:
    made_for = {run.path: records.listed(run.path).get(QUESTION, "") for run in runs}
    commonest = Counter(digest for digest in made_for.values() if digest).most_common(1)
    for path, digest in made_for.items():
        if digest and digest != commonest[0][0]:
            problem = f"{path}: was measured for another question than {results.path.name}"
            reason = "its study.json, with seed and design, was not the same"
            hint = "judge each by itself; `labkit results diff` compares two"
            raise ResultsError(f"{problem}: {reason}", hint=hint)
