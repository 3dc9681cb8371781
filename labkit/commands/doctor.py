"""`labkit doctor`: what this machine can do."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from labkit.commands._verb import json_flag, print_json, verb


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(verbs, "doctor", _doctor, "say what this machine can do")
    parser.add_argument(
        "--packages", action="store_true", help="print only the system packages that are missing"
    )
    json_flag(parser)


def _doctor(asked: argparse.Namespace) -> None:
    from labkit import doctor

    if asked.packages:
        print("\n".join(doctor.packages()))
    elif asked.json:
        print_json(asdict(doctor.examine()))
    else:
        print(doctor.render(doctor.examine()))
