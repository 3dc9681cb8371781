"""`labkit remove`: take away what `labkit new` has written."""

import argparse
import os

from labkit.commands._verb import Verb, arg, flag

REMOVE = Verb(
    "remove", "remove a study of your own",
    ("study disk_cache | list its files", "study disk_cache --yes | remove them"), kind="kind",
)  # fmt: skip


@REMOVE.verb(
    "disk_cache | list what would go", "disk_cache --yes | module, claims, notebook, rows",
    arg("name", "NAME", "name of the study"),
    flag("--yes", "remove them, without a list first"),
)  # fmt: skip
def _study(args: argparse.Namespace) -> None:
    """Remove the files of a study, and its rows in tables."""
    from labkit.running import new_study

    name = args.name.replace("-", "_")
    files = new_study.files_of(name)
    word = "removed" if args.yes else "would remove"
    if args.yes:
        new_study.remove(name)
    print("\n".join(f"{word} {os.path.relpath(path)}" for path in files))
    if not args.yes:
        print(f"\nlabkit remove study {name} --yes removes them; its results stay.")
