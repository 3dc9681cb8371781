"""`labkit studies`: what can be asked."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labkit.commands._verb import JSON, arg, flag, tell, verb
from labkit.errors import BadInput
from labkit.machine.units import shown
from labkit.pages.terminal import paragraph, table

if TYPE_CHECKING:
    from labkit.study import Study


@verb(
    " | each study, with its numbers of conditions and claims",
    "lat_ping | its conditions, claims and parameters",
    "lat_ping --deciders | the kinds of lab that can decide each of its claims",
    "--json | also the parameters for `labkit run -p`",
    "--launch https://github.com/you/labkit | links that open your copy's notebooks on Binder",
    arg("study", "STUDY", "show only this one", nargs="?"),
    (flag("--write", "write the tables of a checkout again"),
     flag("--deciders", "the kinds of lab that can decide each claim of one study"),
     arg("--launch", "URL", "a table of links to Binder, for the repository at URL"), JSON),
)  # fmt: skip
def _studies(args: argparse.Namespace) -> int:
    """List the studies, or show one."""
    from labkit import studies

    if args.deciders and not args.study:
        raise BadInput(
            "--deciders takes the name of a study", hint="labkit studies lat_ping --deciders"
        )
    if args.study:
        study = studies.find(args.study)
        show = _who_decides if args.deciders else _describe
        tell(args, _plain(study), lambda: show(study))
        return 0
    if args.write:
        from labkit.running.new_study import write_tables

        print("\n".join(f"wrote {os.path.relpath(path)}" for path in write_tables()))
        return 0
    all_studies, faults = studies.readable()
    rows = [_plain(study) for study in all_studies] if args.json else []
    tell(args, rows, lambda: _table(args, all_studies))
    for odd in faults:
        print(f"labkit: {odd}", file=sys.stderr)
    return int(bool(faults))


def _table(args: argparse.Namespace, all_studies: Sequence[Study]) -> str:
    from labkit import studies

    if args.launch:
        from labkit.pages import launch

        return launch.markdown(all_studies, args.launch)
    rows = [(s.name, len(s.conditions), len(s.claims), studies.asks(s)) for s in all_studies]
    lines = [table(rows, ["study", "conditions", "claims", "what it asks"])]
    if drafts := [f"  {s.name}: {s.draft}" for s in all_studies if s.draft]:
        lines += ["\nA draft is not ready to use:", *drafts]
    return "\n".join(lines)


def _plain(study: Study) -> dict[str, Any]:
    from labkit.running import notebook

    file = notebook.notebook(study.name)
    return {
        "name": study.name, "title": study.title, "draft": study.draft, "question": study.question,
        "source": study.source,
        "conditions": [c.name for c in study.conditions],
        "claims": [claim.id for claim in study.claims],
        "notebook": str(file), "parameters": notebook.parameters(file),
    }  # fmt: skip


def _who_decides(study: Study) -> str:
    from labkit.running.deciders import rows

    listed = rows([study])
    return table([list(row.values()) for row in listed], list(listed[0]))


# What one wants to know before it is run: where it is, what it asks, what can be changed.
def _describe(study: Study) -> str:
    from labkit import studies
    from labkit.running import notebook

    plain = _plain(study)
    facts = {
        "document": study.source,
        "metric": study.metric + (f" ({shown(study.unit)})" if study.unit != "1" else ""),
        "load": ", ".join(load.name for load in study.loads),
        "topology": study.topology or "pair", "module": str(studies.file_of(study.name)),
        "notebook": str(notebook.found(study.name) or "a plain one for each run"),
    }  # fmt: skip
    parameters = [(name, p["default"], p["help"]) for name, p in plain["parameters"].items()]
    extra = f"Only with -p every=true: {'; '.join(study.extra)}." if study.extra else ""
    parts = [
        paragraph(f"{study.name}: {studies.asks(study)}"), paragraph(study.question),
        table(list(facts.items()), ["", ""]).strip("\n "),
        table([(c.name, c.means) for c in study.conditions], ["condition", "in the document"]),
        paragraph(extra),
        table([(c.id, c.form, c.statement) for c in study.claims], ["claim", "form", "it says"]),
        table(parameters, ["-p", "default", "what it is"]),
    ]  # fmt: skip
    return "\n\n".join(filter(None, parts))
