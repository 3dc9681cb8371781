"""`labkit remove`: take away what `labkit new` has written."""

import argparse
import os
from typing import Any

from labkit.commands._verb import verb


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "remove", None, "remove a study of your own",
        "study disk_cache | list its files", "study disk_cache --yes | remove them",
    )  # fmt: skip
    inner = parser.add_subparsers(title="kinds", metavar="KIND", required=True)
    command = verb(
        inner, "study", _study, "remove the files of a study, and its rows in tables",
        "disk_cache | list what would go", "disk_cache --yes | module, claims, notebook, rows",
    )  # fmt: skip
    command.add_argument("name", metavar="NAME", help="name of the study")
    command.add_argument("--yes", action="store_true", help="remove them, without a list first")


def _study(args: argparse.Namespace) -> None:
    from labkit.running import new_study

    name = args.name.replace("-", "_")
    files = new_study.files_of(name)
    word = "removed" if args.yes else "would remove"
    if args.yes:
        new_study.remove(name)
    print("\n".join(f"{word} {os.path.relpath(path)}" for path in files))
    if not args.yes:
        print(f"\nlabkit remove study {name} --yes removes them; its results stay.")
