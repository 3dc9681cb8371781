"""`labkit doctor`: what this machine can do; with a lab, whether its hosts are ready to measure."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.commands._verb import busy, json_flag, print_json, verb

if TYPE_CHECKING:
    from labkit.check import Finding

TEXT = """\
Say what this machine can do. With --lab: look at each host of a lab, step by step, at the ways
between them, and at which conditions of the studies can be measured there; nothing is changed on
any host. Ends with 1 when a check of a lab failed; warnings are no failure.
"""
SIGNS = {"ok": "ok", "warning": "!!", "failed": "XX", "not looked at": "--"}


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "doctor", _doctor, "say what this machine, or a lab, can do",
        " | this machine: its tier, and the one command that brings more",
        "--lab lab.toml | your own hosts, and what mends what is wrong",
    )  # fmt: skip
    parser.description = TEXT
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--packages", action="store_true", help="print only the system packages that are missing"
    )
    either.add_argument("--lab", metavar="FILE", help="look at the hosts of a lab.toml, or `box`")
    json_flag(parser)


def _doctor(asked: argparse.Namespace) -> int:
    from labkit import doctor

    if asked.lab:
        return _of_lab(asked)
    if asked.packages:
        print("\n".join(doctor.packages()))
    elif asked.json:
        print_json(asdict(doctor.examine()))
    else:
        print(doctor.render(doctor.examine()))
    return 0


def _of_lab(asked: argparse.Namespace) -> int:
    from labkit.check import close, look_over
    from labkit.checks import all_checks
    from labkit.checks.conditions import pairs
    from labkit.commands._lab import open_lab

    lab = open_lab(asked)
    checks = all_checks()
    with busy(f"looking at {', '.join(lab.hosts)}"):
        found = look_over(lab, checks, pairs(lab))
    close(lab)
    counts = {state: sum(one.state == state for one in found) for state in SIGNS}
    if asked.json:
        asks = {check.name: check.asks for check in checks}
        rows = [{**asdict(one), "asks": asks[one.check]} for one in found]
        print_json({"lab": lab.name, "file": str(Path(lab.path).resolve()),
                    "ready": not counts["failed"], "counts": counts, "checks": rows})  # fmt: skip
    else:
        print(rendered(lab.name, found, counts))
    return 1 if counts["failed"] else 0


def rendered(name: str, found: Sequence[Finding], counts: dict[str, int]) -> str:
    """All findings for a person to read: by place, each that is not well with what mends it."""
    from labkit.terminal import table

    parts = [name]
    for where in dict.fromkeys(_place(one) for one in found):
        rows: list[tuple[str, str, str]] = []
        here = [one for one in found if _place(one) == where]
        for one, *others in _alike(here):
            rows += _rows(one, others)
        if unseen := [one for one in here if one.state == "not looked at"]:
            names = ", ".join(one.check for one in unseen)
            rows.append((SIGNS["not looked at"], "", f"{unseen[0].found}; then: {names}"))
        head, *lines = table(rows, ("", "", "")).split("\n")
        assert not head.strip()
        parts.append("\n".join([where, *lines]))
    wrong = [one for state in ("failed", "warning") for one in found if one.state == state]
    said = ", ".join(f"{n} {state}" for state, n in counts.items() if n)
    mend = next((f"\nnext: {one.fix}" for one in wrong if one.fix), "")
    return "\n\n".join([*parts, said + mend])


# What is true of many conditions, such as that a host does not answer, is told once.
def _alike(found: Sequence[Finding]) -> Iterable[list[Finding]]:
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for one in found:
        name = "" if one.check == "conditions" else one.check
        groups.setdefault((name, one.state, one.found, one.said, one.fix), []).append(one)
    return groups.values()


def _place(one: Finding) -> str:
    return "studies" if one.check == "conditions" else one.where


def _rows(one: Finding, others: Sequence[Finding]) -> list[tuple[str, str, str]]:
    if one.state == "not looked at":
        return []
    name = one.where if one.check == "conditions" else one.check
    rows = [(SIGNS[one.state], name, one.found)]
    if one.state in ("warning", "failed"):
        rows += [("", "", f"it says: {line}") for line in one.said.splitlines()]
        rows += [("", "", f"mend it: {one.fix}")] if one.fix else []
    return rows + [("", other.where, "the same") for other in others]
