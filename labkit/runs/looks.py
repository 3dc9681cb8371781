"""Looks at results: each time they are judged at more blocks than before, that is written down.

`looks.json` lies beside study.json. Every run says how many looks there had been when it began, so
deleted looks are missed. A run with another seed or design that was put among the others is named.
The claims that a study gave up are kept in the same file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
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

FILE = "looks.json"
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
    file = results.path / FILE
    kept = _read(file) if file.exists() else ()
    runs = results.runs()
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
    looks = (*before, now)
    if "bundles" not in results.path.parts[:-1]:  # what was unpacked to read never grows
        with suppress(OSError):
            _write(results.path / FILE, looks)
    return looks


def give_up(results: Results, claims: Mapping[str, GivenUp]) -> None:
    """Keep which claims were given up at the last look, in place of those before."""
    file = results.path / FILE
    if given_up(results) != claims:
        none_yet = {"format": FORMAT, "blocks": [], "at": []}  # the budget allowed for no look
        kept = _parsed(file) if file.exists() else none_yet
        kept |= {"given_up": {name: asdict(one) for name, one in claims.items()}}
        records.write(file, records.pretty(kept))


def given_up(results: Results) -> dict[str, GivenUp]:
    """The claims that were given up, and why; none where nothing was given up."""
    file = results.path / FILE
    kept = _parsed(file).get("given_up", {}) if file.exists() else {}
    return {name: GivenUp(one["blocks"], one["why"]) for name, one in kept.items()}


def blocks(results: Results) -> int:
    """The number of blocks that a verdict can rest on."""
    return len({run.block for run in results.finished()})


def _write(file: Path, looks: Sequence[int]) -> None:
    if not os.access(file.parent, os.W_OK):
        return
    at = datetime.now(UTC).isoformat(timespec="seconds")
    before = _parsed(file) if file.exists() else {"at": []}
    whole = before | {"format": FORMAT, "blocks": list(looks), "at": [*before["at"], at]}
    records.write(file, records.pretty(whole))


def _read(file: Path) -> tuple[int, ...]:
    return tuple(_parsed(file)["blocks"])


def _parsed(file: Path) -> dict[str, Any]:
    whole = records.read_json(file)
    looks, at = whole.get("blocks"), whole.get("at")
    sound = (
        whole.get("format") == FORMAT
        and isinstance(looks, list)
        and isinstance(at, list)
        and len(looks) == len(at) <= MOST_LOOKS
        and bool(looks or whole.get("given_up"))
        and all(type(one) is int and one > 0 for one in looks)
        and all(a < b for a, b in pairwise(looks))
        and _is_given_up(whole.get("given_up", {}))
    )
    if not sound:
        raise ResultsError(
            f"{file}: is not a list of looks",
            said=f"its blocks are {str(looks)[:80]}",
            hint="each look is at more blocks than the one before; put it back from a copy",
        )
    return whole


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
