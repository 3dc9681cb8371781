"""Any host: its kind, our rights, its clock, its disk, its settings, and what is left over."""

from collections.abc import Iterator

from labkit.changes.journal import given_up, history
from labkit.changes.plan import plan
from labkit.check import COMMAND_SECONDS, FAILURE, OK, WARNING, Finding, Subject, check
from labkit.fleet.together import reading
from labkit.job.of_runs import of_runs
from labkit.programs.packages import brings
from labkit.settings import kinds_of_setting, needs_words

PROGRAMS = ("chronyc", "sudo")

FAR = 1.0
"""Seconds; times of runs on several hosts could no longer be put in order by eye."""
TIGHT, ROOMY = 16, 256
"""MiB."""
FREE = """\
for place in "${LABKIT_CHANGES:-/var/lib}" /var/lib "$HOME" /tmp; do
    [ -d "$place" ] && set -- $(df -Pk "$place" | tail -n 1) && echo "$place $4"; done; true"""
SETS = 1000
"""Change sets that are looked through; what was given up stays in them."""


@check("labkit knows this kind of host", after="login")
def kind(place: Subject) -> Iterator[Finding]:
    """What kind of host is it: linux, kvm, docker, esxi, box, or several of them?"""
    if place.kinds:
        yield Finding(OK, ", ".join(place.kinds))
    else:
        problem = "neither Linux nor ESXi: labkit has no settings for it"
        fix = "see notebooks/docs/settings.md for the kinds of host"
        yield Finding(FAILURE, problem, place.shown("uname -a"), fix)


@check("settings can be changed", after="kind")
def root(place: Subject) -> Iterator[Finding]:
    """May we change settings there?"""
    if place.greeting.user == "0":
        yield Finding(OK, "root")
        return
    text = place.shown("sudo -n true 2>&1; true").strip()
    yield Finding(
        WARNING, f"{place.target.user} is not root: settings that need root are left out, and "
        "conditions with them", text and f"sudo: {text}",
        f'user = "root", or become = "sudo", in {place.table}',
    )  # fmt: skip


@check("clocks agree", after="kind")
def clock(place: Subject) -> Iterator[Finding]:
    """How far is the host's clock from ours?"""
    read = reading(place.role, lambda: place.host.check("date", "+%s.%N", seconds=COMMAND_SECONDS))
    text = f"{read.offset:+.3f} s from this machine's, within {read.bound:.3f} s"
    if abs(read.offset) - read.bound <= FAR:
        yield Finding(OK, text)
    elif "esxi" in place.greeting.kinds:
        yield Finding(WARNING, text, fix="esxcli system ntp set -e true -s pool.ntp.org")
    else:
        yield Finding(WARNING, text, fix=f"{brings('chronyc')} && chronyc makestep")


@check("its disk has enough space", after="kind")
def disk(place: Subject) -> Iterator[Finding]:
    """Is there room for the journal of changes and for what tools print?"""
    rows = [line.split() for line in place.shown(FREE).splitlines()]
    free = {row[0]: int(row[1]) // 1024 for row in rows if len(row) == 2 and row[1].isdigit()}
    if not free:
        yield Finding(WARNING, "its free space is unknown", fix="df -P /tmp")
        return
    fullest = min(free, key=lambda name: free[name])
    state = FAILURE if free[fullest] < TIGHT else WARNING if free[fullest] < ROOMY else OK
    fix = "" if state == OK else f"free some of {fullest}: du -xh {fullest} | sort -h | tail"
    yield Finding(state, f"{free[fullest]} MiB free in {fullest}", fix=fix)


@check("no change is under way or left over", after="kind")
def unfinished(place: Subject) -> Iterator[Finding]:
    """Is somebody changing the host, or is there a change that nobody has put back?"""
    greeting, back = place.greeting, place.labkit("restore", place.role)
    trouble = greeting.trouble(place.role)
    for chapter in history(place.host, SETS):
        if losses := given_up(chapter):
            number, fix = chapter.name.partition(".")[0], place.labkit("journal", place.role)
            text = f"change set #{number} was given up, and not put back: {', '.join(losses)}"
            yield Finding(WARNING, text, fix=fix)
    jobs = [job for job in of_runs(place.host) if job.goes_on]
    for job in jobs:
        if job.left:
            yield Finding(FAILURE, f"a killed run has left {job}", fix=back)
        else:
            fix = f"wait; or, when it is over: {back} --break"
            yield Finding(WARNING, f"busy with {job}", fix=fix)
    if trouble and greeting.held:
        yield Finding(WARNING, trouble, fix=f"wait; or, when that is over for sure: {back} --break")
    elif trouble:
        yield Finding(FAILURE, trouble, fix=back)
    elif not jobs:
        yield Finding(OK, "nothing is left to put back")


@check("settings that can be made there", after="unfinished")
def settings(place: Subject) -> Iterator[Finding]:
    """Which settings can be made on the host as it is?"""
    simple = [kind() for kind in kinds_of_setting() if not needs_words(kind)]
    roles = {setting.role for setting in simple}
    steps = plan(
        simple, dict.fromkeys(roles, place.host), dict.fromkeys(roles, place.greeting)
    ).steps
    able = sorted(type(step.setting).__name__ for step in steps if not step.why)
    unable = sorted(type(step.setting).__name__ for step in steps if step.why)
    text = f"not: {', '.join(unable)}" if unable else ""
    if able:
        yield Finding(OK, f"{len(able)} of the {len(steps)} simple ones: {', '.join(able)}", text)
    else:
        fix = place.labkit("settings", place.role)
        yield Finding(WARNING, f"none of the {len(steps)} simple ones", text, fix)
