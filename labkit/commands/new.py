"""`labkit new`: the skeleton of something that labkit gets."""

from __future__ import annotations

import argparse
from typing import Any

from labkit.commands._verb import verb


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "new", None, "write the skeleton of a new study",
        "study disk_cache | module, notebook, published files, rows in the tables",
    )  # fmt: skip
    inner = parser.add_subparsers(title="kinds", metavar="KIND", required=True)
    one = verb(
        inner, "study", _new_study, "write the skeleton of a new study into this checkout",
        "disk_cache | a study that runs, with a claim that can fail",
        "disk_cache --document 'Disk Caches' | a claim of this document",
    )  # fmt: skip
    one.add_argument("name", metavar="NAME", help="name of the study, such as disk_cache")
    one.add_argument("--title", default="", metavar="TEXT", help="title of the notebook")
    one.add_argument("--question", default="", metavar="TEXT", help="question that it answers")
    one.add_argument("--document", default="", metavar="TEXT", help="title of its document")


def _new_study(asked: argparse.Namespace) -> None:
    from labkit.machine.places import HOME
    from labkit.running import new_study

    name = asked.name.replace("-", "_")
    made = new_study.NewStudy(name, asked.title, asked.question, asked.document)
    for path in new_study.write(made):
        print(f"wrote {path.relative_to(HOME)}")
    print(f"\nThe study runs as it is: labkit run {name} --quick")
    print("Now make it yours: CONTRIBUTING.md says what goes where.")
