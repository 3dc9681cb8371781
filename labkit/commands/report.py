"""`labkit report`: the report of results that exist."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from labkit.commands._verb import json_flag, now, show_answer, verb
from labkit.errors import BadInput


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "report", _report, "write the report of existing results",
        "lat_ping | the newest results of this study",
        "out/results/lat_ping/monday-1a2b3c4d | of these",
    )  # fmt: skip
    parser.add_argument(
        "run", metavar="RUN", help="a folder of results, one of its runs, or a study (its newest)"
    )
    json_flag(parser)


def _report(asked: argparse.Namespace) -> None:
    from labkit import imports, studies
    from labkit.running.open_lab import named_results

    results = named_results(asked.run)
    if results.study == imports.STUDY:
        raise BadInput(
            f"{results.path} was imported, and has no notebook",
            hint=f"as a page: labkit scorecard {results.path} --html",
        )
    study = studies.find(results.study)
    show_answer(study, given(study.name, str(results.path), results.asked), asked)


def given(study: str, where: str, said: Mapping[str, Any]) -> dict[str, str]:
    """The notebook's parameters: these results, and the load that was measured, not its own."""
    from labkit.running import notebook

    known = notebook.parameters(notebook.notebook(study))
    load = {name: str(value) for name, value in said.get("workload", {}).items() if name in known}
    return {**load, "where": where, "label": str(said.get("label") or now())}
