"""Looks at results: each time they are judged at more blocks than before, that is written down.

`looks.json` lies beside study.json, with its own checksum. It says of each comparison at how many
blocks it was looked at, and when it was decided, which it stays. Every run says how many looks
there had been when it began. A second list, beside all results of a machine, knows looks by the
runs that they were at: so those at deleted, copied or imported results are counted again. A run
with another seed or design that was put among the others is named.
"""

from __future__ import annotations

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
from typing import Any, Protocol

from labkit.errors import ResultsError
from labkit.machine import records
from labkit.results import Results, Run
from labkit.statistics.pooled import FEWEST_BLOCKS
from labkit.statistics.spending import History

FILE = "looks.json"
UNFINISHED = "unfinished"
"""A file that is there while runs of a study are still to be made."""
FORMAT = 1
MOST_LOOKS = 1000
QUESTION = "../../study.json"


class LookedAt(Protocol):
    """A verdict."""

    @property
    def comparisons(self) -> Mapping[str, History]:
        """The looks at its comparisons."""


@dataclass(frozen=True)
class GivenUp:
    """Reason why a claim was not measured until it was decided, and the blocks that it had then."""

    blocks: int
    why: str


def taken(results: Results) -> tuple[int, ...]:
    """The blocks that there were at each look so far; refused if some of the looks are gone."""
    file, runs = results.path / FILE, results.runs()
    kept = tuple(sorted({*_kept(results)["blocks"], *_elsewhere(results, runs)}))
    told = max(runs, key=lambda run: run.looks, default=None)
    if told and told.looks > len(kept):
        raise ResultsError(
            f"{file}: looks were deleted: {told.looks} had been taken before {told.path.name}, "
            f"and {len(kept)} are kept",
            hint="put the file back from a copy; without it verdicts would be wrong too often",
        )
    _insist_on_one_question(results, runs)
    return kept


def look(results: Results) -> tuple[int, ...]:
    """Add the look that is taken now to those `taken`; it is written down if that can be."""
    before, now = taken(results), blocks(results)
    # Of fewer there is no verdict, whatever they show.
    if now < FEWEST_BLOCKS or (before and before[-1] >= now):
        return before
    _note(results, now)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    _change(results, blocks=[*before, now], at=[*_kept(results)["at"], at][-len(before) - 1 :])
    return (*before, now)


def histories(results: Results) -> dict[str, History]:
    """The looks at each comparison that was judged before, and what was decided at them."""
    kept = _kept(results).get("comparisons", {})
    return {key: History(**{**one, "looks": tuple(one["looks"])}) for key, one in kept.items()}


def remember(results: Results, verdicts: Iterable[LookedAt]) -> None:
    """Keep the looks at the comparisons of these verdicts."""
    before = histories(results)
    whole = before | {key: one for v in verdicts for key, one in v.comparisons.items()}
    if whole != before and _kept(results)["blocks"]:
        _change(results, comparisons={key: asdict(one) for key, one in whole.items()})


def give_up(results: Results, claims: Mapping[str, GivenUp]) -> None:
    """Keep which claims were given up at the last look, in place of those before."""
    if given_up(results) != claims:
        _change(results, given_up={name: asdict(one) for name, one in claims.items()})


def given_up(results: Results) -> dict[str, GivenUp]:
    """The claims that were given up, and why; none where nothing was given up."""
    kept = _kept(results).get("given_up", {})
    return {name: GivenUp(one["blocks"], one["why"]) for name, one in kept.items()}


def blocks(results: Results) -> int:
    """The number of blocks that a verdict can rest on."""
    return len({run.block for run in results.finished()})


def unfinished(results: Results) -> bool:
    """Whether runs that were asked for are still to be made."""
    return (results.path / UNFINISHED).exists()


def set_unfinished(results: Results, *, unfinished: bool) -> None:
    """Note that runs are still to be made, or that all are."""
    file = results.path / UNFINISHED
    with records.keeping(f"what is to be measured in {results.path}"):
        file.touch() if unfinished else file.unlink(missing_ok=True)


# What was unpacked to read never grows, and other results may lie where nothing can be written.
def _change(results: Results, **fields: Any) -> None:
    if "bundles" in results.path.parts[:-1] or not os.access(results.path, os.W_OK):
        return
    whole = {**_kept(results), **fields, "format": FORMAT}
    whole["sum"] = _sum(whole)
    with suppress(OSError):
        records.write(results.path / FILE, records.pretty(whole))


def _sum(whole: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in whole.items() if key != "sum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


# Beside the results of all studies; only where results lie as labkit puts them.
def _ledger(results: Results) -> Path | None:
    above = results.path.absolute().parents
    usual = len(above) > 2 and above[1].name == "results"
    return above[2] / "looks" / f"{above[0].name}.jsonl" if usual else None


def _print(runs: Iterable[Run]) -> list[str]:
    texts = {json.dumps(sorted(run.raw.values())) for run in runs}
    return sorted(hashlib.sha256(text.encode()).hexdigest()[:12] for text in texts)


def _note(results: Results, now: int) -> None:
    if ledger := _ledger(results):
        line = {"blocks": now, "runs": _print(results.finished())}
        with suppress(OSError):
            ledger.parent.mkdir(exist_ok=True)
            with ledger.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


# Earlier looks at runs that are all among these: at these results, a copy, or an earlier import.
def _elsewhere(results: Results, runs: Sequence[Run]) -> list[int]:
    ledger, found = _ledger(results), []
    if ledger is None or not ledger.is_file():
        return []
    here = {*_print(run for run in runs if run.state == "finished")}
    for line in ledger.read_text("utf-8", errors="replace").splitlines():
        with suppress(ValueError, KeyError, TypeError):
            one = json.loads(line)
            if one["runs"] and here.issuperset(one["runs"]):
                found.append(int(one["blocks"]))
    return found


def _kept(results: Results) -> dict[str, Any]:
    file = results.path / FILE
    return _parsed(file) if file.exists() else {"format": FORMAT, "blocks": [], "at": []}


def _parsed(file: Path) -> dict[str, Any]:
    whole = records.read_json(file)
    looks, at = whole.get("blocks"), whole.get("at")
    sound = (
        whole.get("format") == FORMAT
        and isinstance(looks, list)
        and isinstance(at, list)
        and len(at) <= len(looks) <= MOST_LOOKS
        and bool(looks or whole.get("given_up"))
        and all(type(one) is int and one > 0 for one in looks)
        and all(a < b for a, b in pairwise(looks))
        and _is_given_up(whole.get("given_up", {}))
        and _is_history(whole.get("comparisons", {}))
    )
    if not sound:
        raise ResultsError(
            f"{file}: is not a list of looks",
            said=f"its blocks are {str(looks)[:80]}",
            hint="each look is at more blocks than the one before; put it back from a copy",
        )
    if whole.get("sum", _sum(whole)) != _sum(whole):
        what = f"{file}: has changed since it was written (its checksum differs)"
        raise ResultsError(what, hint="put it back from a copy")
    return whole


def _is_history(kept: object) -> bool:
    return isinstance(kept, dict) and all(
        isinstance(one, dict) and one.keys() == History.__dataclass_fields__.keys()
        and isinstance(one["looks"], list) and all(type(n) is int for n in one["looks"])
        and isinstance(one["crossed"], str) and type(one["at"]) is int
        and isinstance(one["counted"], int | float)
        for one in kept.values()
    )  # fmt: skip


def _is_given_up(kept: object) -> bool:
    return isinstance(kept, dict) and all(
        isinstance(one, dict) and type(one.get("blocks")) is int and isinstance(one.get("why"), str)
        for one in kept.values()
    )


# The checksums of a run hold that of the question that it was made for; most runs are of their own.
def _insist_on_one_question(results: Results, runs: Sequence[Run]) -> None:
    made_for = {run.path: records.listed(run.path).get(QUESTION, "") for run in runs}
    most = Counter(digest for digest in made_for.values() if digest).most_common(1)
    for path, digest in made_for.items():
        if digest and digest != most[0][0]:
            raise ResultsError(
                f"{path}: was measured for another question than {results.path.name}: "
                "its study.json, with seed and design, was not the same",
                hint="judge each by itself; `labkit results diff` compares two",
            )
