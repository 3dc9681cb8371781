"""The page of labs that can decide each claim, and the counts of them in other texts."""

import re
from collections.abc import Sequence

from labkit.box.machine import Machine
from labkit.errors import BadInput
from labkit.machine.places import HOME
from labkit.running.deciders import BOXES, LABS, decided_on, rows
from labkit.study import Study

LARGER = {
    "4 CPUs": Machine.of(4),
    "8 CPUs": Machine.of(8),
    "16 CPUs": Machine.of(16),
    "64 CPUs on 2 nodes, 2 threads a core": Machine.of(64, nodes=2, threads=2),
}
"""Machines for which the page counts what a box decides there, as its topologies grow."""
PAGE = HOME / "notebooks/docs/proof/claims.md"
SENTENCES = {
    r"decide \[\d+ of \d+ claims\]": "decide [{box} of {all} claims]",
    r"or \d+ where KVM": "or {box with KVM} where KVM",
    r"decide \d+ by KVM, \d+ by ESXi": "decide {KVM} by KVM, {ESXi} by ESXi",
}
"""The same counts in the text of a page."""


def counted(text: str, studies: Sequence[Study]) -> str:
    """A page with the counts of what each lab decides of these studies' claims."""
    listed = rows(studies)
    numbers = {
        f"{lab}, {name}": len(decided_on(machine, studies, lab))
        for lab in BOXES for name, machine in LARGER.items()
    }  # fmt: skip
    numbers |= {lab: sum(row[lab] == "yes" for row in listed) for lab in LABS}
    for lab, yes in numbers.items():
        line = f"| {lab} | {yes} of {len(listed)} |"
        text = re.sub(rf"^\| {lab} \| \d+ of \d+ \|$", line, text, flags=re.MULTILINE)
    for pattern, words in SENTENCES.items():
        text = re.sub(pattern, words.format_map({**numbers, "all": len(listed)}), text)
    return text


def page(text: str, studies: Sequence[Study]) -> str:
    """The page of all claims, with the counts and the last table of these studies."""
    text = counted(text, studies)
    before, head, _ = text.partition("| claim | ")
    if not head:
        raise BadInput(f"{PAGE.name} has no table of claims", hint=f"git checkout {PAGE}")
    return f"{before}{markdown(studies)}\n"


def markdown(studies: Sequence[Study]) -> str:
    """The table of all claims for a page."""
    return _table(rows(studies))


def _table(listed: Sequence[dict[str, str]]) -> str:
    head = list(listed[0])
    lines = [head, ["---"] * len(head), *([*row.values()] for row in listed)]
    return "\n".join(f"| {' | '.join(cells)} |".replace("  ", " ") for cells in lines)
