"""`labkit doctor`: what this machine can do; with a lab, whether its hosts are ready to measure."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.commands._lab import open_lab
from labkit.commands._verb import JSON, arg, busy, flag, tell, verb
from labkit.pages.terminal import ProgressLine, paragraph, table

if TYPE_CHECKING:
    from labkit.check import Finding
    from labkit.lab import Lab

STUDIES = "studies"
Row = tuple[str, str, str]
SIGNS = {"ok": "ok", "warning": "!!", "failed": "XX", "not looked at": "--"}


@verb(
    " | this machine: its tier, and the command for the next one",
    "--lab lab.toml | your own hosts, with a remedy for each failed check",
    "--guests | what virtual machines do here: boot, NICs, CPUs, memory, containers",
    (flag("--packages", "print only the system packages that are missing"),
     flag("--guests", "try all that guests do, in a box of its own"),
     arg("--lab", "FILE", "check the hosts of a lab.toml, or `box`")),
    JSON,
)  # fmt: skip
def _doctor(args: argparse.Namespace) -> int:
    """Show what this machine, or a lab, can do.

    With --lab, check the hosts of a lab and the paths between them, and list the conditions that
    can be measured there. Nothing is changed on any host. With --guests, make a box, try all that
    guests do in it, and remove it; LABKIT_ACCELERATOR says what runs them. The exit code is 1 if a
    check or a trial failed; warnings do not count.
    """
    from labkit.box import this_machine as doctor

    if args.lab:
        return look_at(open_lab(args), args)
    if args.guests:
        return _try_guests(args)
    if args.packages:
        missing = doctor.packages()
        tell(args, missing, lambda: "\n".join(missing))
        return 0
    report = doctor.examine()
    parts = [doctor.render(report), paragraph(doctor.ready(report))]
    tell(args, asdict(report), lambda: "\n\n".join(parts))
    return 0


def _try_guests(args: argparse.Namespace) -> int:
    from labkit.box.guests import contract

    with ProgressLine() as line:
        results = contract.try_all(line.say)
    heads = ("", "tried", "took", "what came of it")
    text = contract.rendered(results, lambda rows: table(rows, heads))
    tell(args, asdict(results), lambda: text)
    return int(bool(results.count(contract.FAILURE)))


def look_at(lab: Lab, args: argparse.Namespace) -> int:
    """Look over the hosts of the lab `args.lab`; 1 if a check failed."""
    from labkit.check import close, look_over
    from labkit.checks import all_checks
    from labkit.checks.conditions import pairs

    checks = all_checks()
    with busy(f"looking at {', '.join(lab.hosts)}"):
        findings = look_over(lab, checks, pairs(lab))
    close(lab)
    counts = {state: sum(finding.state == state for finding in findings) for state in SIGNS}
    asks = {check.name: check.asks for check in checks}
    rows = [{**asdict(finding), "asks": asks[finding.check]} for finding in findings]
    document = {"lab": lab.name, "file": str(Path(lab.path).resolve()),
                "ready": not counts["failed"], "counts": counts, "checks": rows}  # fmt: skip
    tell(args, document, lambda: rendered(lab.name, findings, counts, str(args.lab)))
    return 1 if counts["failed"] else 0


def rendered(name: str, findings: Sequence[Finding], counts: dict[str, int], file: str) -> str:
    """All findings for a person to read: by place, each that is not well with what mends it."""
    parts = [name]
    for place in dict.fromkeys(_place(finding) for finding in findings):
        of_place = [finding for finding in findings if _place(finding) == place]
        rows = _conditions(of_place) if place == STUDIES else _checks(of_place)
        head, *lines = table(rows, ("", "", "")).split("\n")
        assert not head.strip()
        parts.append("\n".join([place, *lines]))
    text = ", ".join(f"{n} {state}" for state, n in counts.items() if n)
    ending = filter(None, (text, _next(findings, file), paragraph(_ready(findings))))
    return "\n\n".join([*parts, "\n".join(ending)])


def _place(finding: Finding) -> str:
    return STUDIES if finding.check == "conditions" else finding.where


def _checks(findings: Sequence[Finding]) -> list[Row]:
    rows: list[Row] = []
    for finding in findings:
        if finding.state != "not looked at":
            rows.append((SIGNS[finding.state], finding.check, finding.found))
            rows += [("", "", line) for line in _describe_fix(finding)]
    if not_seen := [finding for finding in findings if finding.state == "not looked at"]:
        names = ", ".join(finding.check for finding in not_seen)
        rows.append((SIGNS["not looked at"], "", f"{not_seen[0].found}; then: {names}"))
    return rows


def _describe_fix(finding: Finding) -> list[str]:
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
        finding, places = alike[0], [finding_alike.where.partition(": ") for finding_alike in alike]
        rows.append((SIGNS[finding.state], "", finding.found))
        rows += [("", "", line) for line in _describe_fix(finding)]
        for study in dict.fromkeys(study for study, _, _ in places):
            rows.append(("", study, "; ".join(name for of, _, name in places if of == study)))
    return rows


# What failed comes first; a warning leaves a lab that can measure.
def _next(findings: Sequence[Finding], file: str) -> str:
    able = [f.where for f in findings if _place(f) == STUDIES and f.state == "ok"]
    mend = _fixes(findings, "failed", "warning") if not able else _fixes(findings, "failed")
    if mend:
        return f"next: {mend[0]}"
    run = ["labkit", "run", able[0].partition(":")[0], "--quick", "--where", file] if able else []
    return f"next: {shlex.join(run)}" if run else ""


def _fixes(findings: Sequence[Finding], *states: str) -> list[str]:
    return [
        finding.fix for state in states for finding in findings
        if finding.state == state and finding.fix and _place(finding) != STUDIES
    ]  # fmt: skip


def _ready(findings: Sequence[Finding]) -> str:
    """Each study and how many of its conditions can be measured; then what brings the most more."""
    of_studies = [finding for finding in findings if _place(finding) == STUDIES]
    of = Counter(finding.where.partition(":")[0] for finding in of_studies)
    able = Counter(f.where.partition(":")[0] for f in of_studies if f.state == "ok")
    texts = [f"{name} ({n if n < of[name] else 'all'} of {of[name]})" for name, n in able.items()]
    lacking = Counter(finding.fix for finding in of_studies if finding.fix)
    fixes = [*_fixes(findings, "failed", "warning"), *(fix for fix, _ in lacking.most_common())]
    end = f"; to do more: {fixes[0]}" if fixes else ""
    return f"ready: {', '.join(texts) or 'no study'}{end}"
