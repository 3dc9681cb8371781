"""`labkit report`: the report of results that exist."""

from __future__ import annotations

import argparse
from typing import Any

from labkit import studies
from labkit.commands._verb import json_flag, show_answer, verb
from labkit.where import named_results


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(verbs, "report", _report, "write the report of results that exist")
    parser.add_argument(
        "run", metavar="RUN", help="a folder of results, one of its runs, or a study: its newest"
    )
    json_flag(parser)


def _report(asked: argparse.Namespace) -> None:
    results = named_results(asked.run)
    given = {"where": str(results.path), "label": str(results.asked["label"])}
    show_answer(studies.find(results.study), given, asked)
