"""`labkit remove`: take away what `labkit new` has written."""

import argparse
import importlib
import os
from pathlib import Path

from labkit.commands._verb import Verb, arg, flag
from labkit.errors import BadInput, Unknown

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
    name = args.name.replace("-", "_")
    files = _files_of(name)
    word = "removed" if args.yes else "would remove"
    if args.yes:
        _remove(name)
    print("\n".join(f"{word} {os.path.relpath(path)}" for path in files))
    if not args.yes:
        print(f"\nlabkit remove study {name} --yes removes them; its results stay.")


# Module, notebook, claims, figures and a recorded run, as there are.
def _files_of(name: str) -> list[Path]:
    from labkit import studies
    from labkit.claims import printed, published
    from labkit.machine.places import HOME
    from labkit.running import notebook

    if name not in {*studies.names(), *published.names()}:
        raise Unknown("study", name, studies.names())
    module, folder = studies.file_of(name), printed.folder_of(name)
    above = module.parents[1] if module.is_file() else folder.parent
    data = HOME / "data" if name in studies.built_in() else above
    files = [
        module, notebook.found(name), folder / f"{name}.toml", folder / f"{name}.csv",
        data / f"recorded/{name}.labkit",
    ]  # fmt: skip
    paths = [path for path in files if path is not None and path.is_file()]
    if HOME in (above, above.parent) and not (HOME / "README.md").is_file():
        problem = f"{name} comes with labkit: an installed labkit keeps its studies"
        raise BadInput(problem, hint="remove it from a clone of labkit")
    return paths


# Results stay.
def _remove(name: str) -> None:
    from labkit import studies
    from labkit.claims import printed, published
    from labkit.running import new_study

    is_built_in = name in studies.built_in()
    for path in _files_of(name):
        path.unlink()
    importlib.invalidate_caches()
    if is_built_in:
        published.published.cache_clear()
        sources = printed.FOLDER / "SOURCES.md"
        sources.write_text(_list_without(sources.read_text("utf-8"), name), "utf-8")
        new_study.write_tables()


# The row of a document without this study; without any study the row goes.
def _list_without(sources: str, name: str) -> str:
    lines = []
    for line in sources.split("\n"):
        *before, last, end = line.split("|") if line.count("|") > 2 else ("", "", line, "")
        names = [word.strip() for word in last.split(",")]
        if name in names and len(names) == 1:
            continue
        others = f" {', '.join(word for word in names if word != name)} "
        lines.append("|".join([*before, others, end]) if name in names else line)
    return "\n".join(lines)
