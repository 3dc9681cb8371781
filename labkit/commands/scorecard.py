"""`labkit scorecard`: every claim of every document, on every lab that measured it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from labkit.commands._verb import busy, json_flag, print_json, verb
from labkit.errors import ResultsError


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "scorecard", _scorecard, "show documents, claims and labs in one table",
        " | what this machine has measured, and what comes recorded",
        "out/results --html >card.html | of one folder, as a page",
    )  # fmt: skip
    parser.add_argument(
        "folders", nargs="*", type=Path, metavar="FOLDER",
        help="results or bundles; those of this machine and the recorded ones if absent",
    )  # fmt: skip
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--markdown", action="store_true", help="the whole table, for a page of Markdown"
    )
    shown.add_argument(
        "--html", action="store_true", help="an HTML page; its links open the results"
    )
    json_flag(parser)


def _scorecard(asked: argparse.Namespace) -> None:
    from labkit.score_page import page
    from labkit.scorecard import plain, scorecard

    with busy("judging all results"):
        card = scorecard(*asked.folders)
    if asked.folders and not card.unread and not any(line.evidence for line in card.lines):
        named = ", ".join(map(str, asked.folders))
        raise ResultsError(
            f"no results in {named}", hint="`labkit results list` names what there is"
        )
    if asked.json:
        print_json(plain(card))
    elif asked.markdown:
        print(card.markdown(), end="")
    elif asked.html:
        print(page(card), end="")
    else:
        print(card.text())
