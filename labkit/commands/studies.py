"""`labkit studies`: what can be asked."""

from __future__ import annotations

import argparse
from typing import Any

from labkit.commands._verb import json_flag, print_json, verb


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "studies", _studies, "list the studies",
        " | each study, with its numbers of conditions and claims",
        "--json | also the parameters for `labkit run -p`",
        "--launch https://github.com/you/labkit | links that open your copy's notebooks on Binder",
    )  # fmt: skip
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--markdown", action="store_true", help="the table of the README")
    shown.add_argument(
        "--deciders", action="store_true", help="the table of who can decide each claim"
    )
    shown.add_argument(
        "--launch", metavar="URL", help="a table of links to Binder, for the repository at URL"
    )
    json_flag(shown)


def _studies(asked: argparse.Namespace) -> None:
    from labkit import studies
    from labkit.pages.terminal import table
    from labkit.running import notebook

    found = [studies.find(name) for name in studies.names()]
    if asked.markdown:
        print(studies.markdown())
        return
    if asked.deciders:
        from labkit.running.who_decides import markdown

        print(markdown(found))
        return
    if asked.launch:
        from labkit.pages import launch

        print(launch.markdown(found, asked.launch))
        return
    if not asked.json:
        rows = [(s.name, len(s.conditions), len(s.claims), studies.asks(s)) for s in found]
        print(table(rows, ["study", "conditions", "claims", "what it asks"]))
        if drafts := [s for s in found if s.draft]:
            print("\nA draft is not ready to use:")
            print(*(f"  {s.name}: {s.draft}" for s in drafts), sep="\n")
        return
    print_json(
        [
            {
                "name": s.name, "title": s.title, "draft": s.draft, "question": s.question,
                "source": s.source,
                "conditions": [c.name for c in s.conditions],
                "claims": [claim.id for claim in s.claims],
                "notebook": str(notebook.notebook(s.name)),
                "parameters": notebook.parameters(notebook.notebook(s.name)),
            }
            for s in found
        ]
    )  # fmt: skip
