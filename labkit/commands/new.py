"""`labkit new`: the skeleton of something that labkit gets."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
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
    one.add_argument(
        "--in", dest="folder", type=Path, metavar="DIR",
        help="a folder of your own for it (default: the workspace here, else this checkout)",
    )  # fmt: skip


def _new_study(asked: argparse.Namespace) -> None:
    from labkit.machine import workspace

    folder = asked.folder.expanduser().resolve() if asked.folder else workspace.nearest()
    elsewhere = folder is not None and folder != workspace.nearest()
    if folder is not None and elsewhere:
        workspace.use(folder)
    from labkit.running import new_study  # its registries are read once, now with the folder

    name = asked.name.replace("-", "_")
    made = new_study.NewStudy(name, asked.title, asked.question, asked.document, folder)
    for path in new_study.write(made):
        print(f"wrote {os.path.relpath(path)}")
    move = f"cd {shlex.quote(str(asked.folder))} && " if elsewhere else ""
    print(f"\nThe study runs as it is: {move}labkit run {name} --quick")
    print("Now make it yours: notebooks/docs/own-study.md says what goes where.")
