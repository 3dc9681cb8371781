"""What the verbs of the command line share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from labkit.study import Study


def verb(verbs: Any, name: str, call: Any, text: str) -> argparse.ArgumentParser:
    """One verb, which `call` carries out; the caller adds its arguments."""
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=text)
    parser.set_defaults(call=call)
    return parser


def json_flag(parser: argparse.ArgumentParser) -> None:
    """The flag that every verb with an answer has."""
    parser.add_argument("--json", action="store_true", help="print JSON for a machine to read")


def print_json(whole: object) -> None:
    """JSON that any reader takes: no NaN."""
    print(json.dumps(whole, indent=1, default=str, allow_nan=False))


def show_answer(study: Study, given: Mapping[str, str], asked: argparse.Namespace) -> None:
    """Run a study, or read its results, and say what came out."""
    from labkit.answer import answer, rendered
    from labkit.terminal import progress_line

    with progress_line() as line:
        found = answer(study, given, line)
    if asked.json:
        print_json(asdict(found))
    else:
        print(rendered(study, found))


def now() -> str:
    """A label for results: the time of day."""
    return f"{datetime.now():%Y%m%d-%H%M%S}"
