"""Which settings can be made on the host as it is?"""

from collections.abc import Iterator

from labkit.changes.plan import plan
from labkit.check import OK, WARNING, Check, Finding, Subject
from labkit.settings import kinds_of_setting, needs_words


def _look(place: Subject) -> Iterator[Finding]:
    settings = [kind() for kind in kinds_of_setting() if not needs_words(kind)]
    roles = {setting.role for setting in settings}
    steps = plan(
        settings, dict.fromkeys(roles, place.host), dict.fromkeys(roles, place.greeting)
    ).steps
    able = sorted(type(step.setting).__name__ for step in steps if not step.why)
    unable = sorted(type(step.setting).__name__ for step in steps if step.why)
    text = f"not: {', '.join(unable)}" if unable else ""
    if able:
        yield Finding(OK, f"{len(able)} of the {len(steps)} simple ones: {', '.join(able)}", text)
    else:
        fix = place.labkit("settings", place.role)
        yield Finding(WARNING, f"none of the {len(steps)} simple ones", text, fix)


check = Check("settings that can be made there", _look, after="unfinished")
