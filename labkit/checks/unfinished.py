"""Is somebody changing the host, or is there a change that nobody has put back?"""

from collections.abc import Iterator

from labkit.changes.journal import given_up, history
from labkit.check import FAILURE, OK, WARNING, Check, Finding, Subject
from labkit.job.of_runs import of_runs

SETS = 1000
"""Change sets that are looked through; what was given up stays in them."""


def _look(place: Subject) -> Iterator[Finding]:
    greeting, back = place.greeting, place.labkit("restore", place.role)
    trouble = greeting.trouble(place.role)
    for chapter in history(place.host, SETS):
        if losses := given_up(chapter):
            sentence = (
                f"change set #{chapter.name.partition('.')[0]} was given up, and not put back"
            )
            fix = place.labkit("journal", place.role)
            yield Finding(WARNING, f"{sentence}: {', '.join(losses)}", fix=fix)
    jobs = [job for job in of_runs(place.host) if job.goes_on]
    for job in jobs:
        if job.left:
            yield Finding(FAILURE, f"a killed run has left {job}", fix=back)
        else:
            yield Finding(
                WARNING, f"busy with {job}", fix=f"wait; or, when it is over: {back} --break"
            )
    if not trouble and not jobs:
        yield Finding(OK, "nothing is left to put back")
    elif trouble and greeting.held:
        yield Finding(WARNING, trouble, fix=f"wait; or, when that is over for sure: {back} --break")
    elif trouble:
        yield Finding(FAILURE, trouble, fix=back)


check = Check("no change is under way or left over", _look, after="kind")
