"""`labkit studies`: what can be asked."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labkit.commands._verb import json_flag, print_json, verb
from labkit.machine.units import shown

if TYPE_CHECKING:
    from labkit.study import Study


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "studies", _studies, "list the studies, or show one",
        " | each study, with its numbers of conditions and claims",
        "lat_ping | its conditions, claims and parameters",
        "--json | also the parameters for `labkit run -p`",
        "--launch https://github.com/you/labkit | links that open your copy's notebooks on Binder",
    )  # fmt: skip
    parser.add_argument("study", nargs="?", default="", metavar="STUDY", help="show only this one")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--markdown", action="store_true", help="the table of the README")
    forms.add_argument("--write", action="store_true", help="write the tables of a checkout again")
    forms.add_argument(
        "--deciders", action="store_true", help="the table of who can decide each claim"
    )
    forms.add_argument(
        "--launch", metavar="URL", help="a table of links to Binder, for the repository at URL"
    )
    json_flag(forms)


def _studies(args: argparse.Namespace) -> int:
    from labkit import studies

    if args.study:
        study = studies.find(args.study)
        print_json(_plain(study)) if args.json else print(_describe(study))
        return 0
    if args.write:
        from labkit.running.new_study import write_tables

        print("\n".join(f"wrote {os.path.relpath(path)}" for path in write_tables()))
        return 0
    all_studies, faults = studies.readable()
    _show(args, all_studies)
    for odd in faults:
        print(f"labkit: {odd}", file=sys.stderr)
    return int(bool(faults))


def _show(args: argparse.Namespace, all_studies: Sequence[Study]) -> None:
    from labkit import studies
    from labkit.pages.terminal import table

    if args.markdown:
        print(studies.markdown())
        return
    if args.deciders:
        from labkit.running.new_study import docs_tool

        print(docs_tool("who_decides").markdown(all_studies))
        return
    if args.launch:
        from labkit.pages import launch

        print(launch.markdown(all_studies, args.launch))
        return
    if not args.json:
        rows = [(s.name, len(s.conditions), len(s.claims), studies.asks(s)) for s in all_studies]
        print(table(rows, ["study", "conditions", "claims", "what it asks"]))
        if drafts := [s for s in all_studies if s.draft]:
            print("\nA draft is not ready to use:")
            print(*(f"  {s.name}: {s.draft}" for s in drafts), sep="\n")
        return
    print_json([_plain(study) for study in all_studies])


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


# What one wants to know before it is run: where it is, what it asks, what can be changed.
def _describe(study: Study) -> str:
    from labkit import studies
    from labkit.pages.terminal import paragraph, table
    from labkit.running import notebook

    plain = _plain(study)
    facts = {
        "document": study.source,
        "metric": study.metric + (f" ({shown(study.unit)})" if study.unit != "1" else ""),
        "load": ", ".join(load.name for load in study.loads),
        "topology": study.topology or "pair", "module": str(studies.file_of(study.name)),
        "notebook": str(notebook.found(study.name) or "a plain one for each run"),
    }  # fmt: skip
    parameters = [
        (name, parameter["default"], parameter["help"])
        for name, parameter in plain["parameters"].items()
    ]
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
