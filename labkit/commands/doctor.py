"""`labkit doctor`: what this machine can do; with a lab, whether its hosts are ready to measure."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.commands._colour import painted
from labkit.commands._lab import open_lab
from labkit.commands._verb import busy, json_flag, print_json, verb

if TYPE_CHECKING:
    from labkit.check import Finding
    from labkit.lab import Lab

TEXT = """\
Show what this machine can do. With --lab, check the hosts of a lab and the paths between them,
and list the conditions that can be measured there. Nothing is changed on any host. With --guests,
make a box, try all that guests do in it, and remove it; LABKIT_ACCELERATOR says what runs them. The
exit code is 1 if a check or a trial failed; warnings do not count.
"""
STUDIES = "studies"
Row = tuple[str, str, str]
SIGNS = {"ok": "ok", "warning": "!!", "failed": "XX", "not looked at": "--"}


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "doctor", _doctor, "show what this machine, or a lab, can do",
        " | this machine: its tier, and the command for the next one",
        "--lab lab.toml | your own hosts, with a remedy for each failed check",
        "--guests | what virtual machines do here: boot, NICs, CPUs, memory, containers",
    )  # fmt: skip
    parser.description = TEXT
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--packages", action="store_true", help="print only the system packages that are missing"
    )
    either.add_argument(
        "--guests", action="store_true", help="try all that guests do, in a box of its own"
    )
    either.add_argument("--lab", metavar="FILE", help="check the hosts of a lab.toml, or `box`")
    json_flag(parser)


def _doctor(args: argparse.Namespace) -> int:
    from labkit.box import this_machine as doctor

    if args.lab:
        return look_at(open_lab(args), args.lab, as_json=args.json)
    if args.guests:
        return _try_guests(as_json=args.json)
    if args.packages:
        missing = doctor.packages()
        print_json(missing) if args.json else print("\n".join(missing))
    elif args.json:
        print_json(asdict(doctor.examine()))
    else:
        print(painted(doctor.render(doctor.examine())))
    return 0


def _try_guests(*, as_json: bool) -> int:
    from labkit.box.guests import contract
    from labkit.pages.terminal import progress_line, table

    with progress_line() as line:
        results = contract.try_all(line.say)
    if as_json:
        print_json(asdict(results))
    else:
        heads = ("", "tried", "took", "what came of it")
        print(painted(contract.rendered(results, lambda rows: table(rows, heads))))
    return int(bool(results.count(contract.FAILED)))


def look_at(lab: Lab, named: str, *, as_json: bool = False) -> int:
    """Look over the hosts of the lab of that file or name; 1 if a check failed."""
    from labkit.check import close, look_over
    from labkit.checks import all_checks
    from labkit.checks.conditions import pairs

    checks = all_checks()
    with busy(f"looking at {', '.join(lab.hosts)}"):
        findings = look_over(lab, checks, pairs(lab))
    close(lab)
    counts = {state: sum(finding.state == state for finding in findings) for state in SIGNS}
    if as_json:
        asks = {check.name: check.asks for check in checks}
        rows = [{**asdict(finding), "asks": asks[finding.check]} for finding in findings]
        print_json({"lab": lab.name, "file": str(Path(lab.path).resolve()),
                    "ready": not counts["failed"], "counts": counts, "checks": rows})  # fmt: skip
    else:
        print(painted(rendered(lab.name, findings, counts, named)))
    return 1 if counts["failed"] else 0


def rendered(name: str, findings: Sequence[Finding], counts: dict[str, int], file: str) -> str:
    """All findings for a person to read: by place, each that is not well with what mends it."""
    from labkit.pages.terminal import table

    parts = [name]
    for where in dict.fromkeys(_place(finding) for finding in findings):
        of_place = [finding for finding in findings if _place(finding) == where]
        rows = _conditions(of_place) if where == STUDIES else _checks(of_place)
        head, *lines = table(rows, ("", "", "")).split("\n")
        assert not head.strip()
        parts.append("\n".join([where, *lines]))
    text = ", ".join(f"{n} {state}" for state, n in counts.items() if n)
    return "\n\n".join([*parts, f"{text}\n{_next(findings, file)}".strip()])


def _place(finding: Finding) -> str:
    return STUDIES if finding.check == "conditions" else finding.where


def _checks(findings: Sequence[Finding]) -> list[Row]:
    rows: list[Row] = []
    for finding in findings:
        if finding.state != "not looked at":
            rows.append((SIGNS[finding.state], finding.check, finding.found))
            rows += [("", "", line) for line in _mended(finding)]
    if unseen := [finding for finding in findings if finding.state == "not looked at"]:
        names = ", ".join(one.check for one in unseen)
        rows.append((SIGNS["not looked at"], "", f"{unseen[0].found}; then: {names}"))
    return rows


def _mended(finding: Finding) -> list[str]:
    if finding.state not in ("warning", "failed"):
        return []
    texts = [f"it says: {line}" for line in finding.said.splitlines() if line.strip()]
    return [*texts, *([f"mend it: {finding.fix}"] if finding.fix else [])]


# What is true of many conditions, such as that there is no guest, is said once.
def _conditions(findings: Sequence[Finding]) -> list[Row]:
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.state, finding.found, finding.said), []).append(finding)
    rows: list[Row] = []
    for alike in groups.values():
        finding, named = alike[0], [other.where.partition(": ") for other in alike]
        rows.append((SIGNS[finding.state], "", finding.found))
        rows += [("", "", line) for line in _mended(finding)]
        for study in dict.fromkeys(study for study, _, _ in named):
            rows.append(("", study, "; ".join(name for of, _, name in named if of == study)))
    return rows


# What is wrong with a host comes first; a condition that a lab has no host for is no mistake.
def _next(findings: Sequence[Finding], file: str) -> str:
    for state in ("failed", "warning"):
        if mend := [
            finding.fix
            for finding in findings
            if finding.state == state and _place(finding) != STUDIES
        ]:
            return f"next: {mend[0]}"
    able = next(
        (
            finding.where
            for finding in findings
            if _place(finding) == STUDIES and finding.state == "ok"
        ),
        "",
    )
    run = shlex.join(["labkit", "run", able.partition(":")[0], "--quick", "--where", file])
    return f"next: {run}" if able else ""
