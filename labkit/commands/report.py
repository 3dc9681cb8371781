"""`labkit report`: the report of results that exist."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from labkit import studies
from labkit.commands._verb import json_flag, show_answer, verb
from labkit.errors import ResultsError
from labkit.results import Results, out, stored


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(verbs, "report", _report, "write the report of results that exist")
    parser.add_argument(
        "run", metavar="RUN", help="a folder of results, one of its runs, or a study: its newest"
    )
    json_flag(parser)


def _report(asked: argparse.Namespace) -> None:
    results = Results.open(_results_folder(asked.run))
    given = {"where": str(results.path), "label": str(results.asked["label"])}
    show_answer(studies.find(results.study), given, asked)


def _results_folder(named: str) -> Path:
    path = Path(named).expanduser().resolve()
    for folder in (path, *path.parents[:2]):
        if (folder / "study.json").is_file():
            return folder
    if named.replace("-", "_") in studies.names():
        found = stored(named.replace("-", "_"))
        if not found:
            raise ResultsError(f"{named} has no results yet", hint=f"labkit run {named}")
        return found[-1]
    raise ResultsError(f"no results at {named}", hint=f"they are under {out() / 'results'}")
