"""hyperfine, as `--export-json` writes it: each time of each command.

Several commands of one file are several conditions, named as their commands.
"""

import json
from typing import Any

from labkit.errors import ResultsError
from labkit.imports._reading import at, insist, json_of, number, sample
from labkit.workload import Sample


def read(text: str) -> list[Sample]:
    """The time taken by one command, in s; runs that failed are lost."""
    commands = _commands(text)
    if len(commands) > 1:
        names = ", ".join(str(at(command, "command")) for command in commands)
        raise ResultsError(f"these are {len(commands)} commands: {names}",
                           hint="import the file without naming a condition")  # fmt: skip
    return insist([_times(command) for command in commands], "hyperfine")


def parts(text: str) -> list[tuple[str, int, str]]:
    """Each command as a condition of its own."""
    return [(str(at(command, "command")), 0, json.dumps({"results": [command]}))
            for command in _commands(text)]  # fmt: skip


def _commands(text: str) -> list[Any]:
    commands = at(json_of(text, "hyperfine"), "results")
    if not isinstance(commands, list) or not commands:
        raise ResultsError("the output of hyperfine has no results")
    return commands


def _times(fields: Any) -> Sample:
    times = at(fields, "times")
    if not isinstance(times, list):
        raise ResultsError("the output of hyperfine has no times: export it as JSON")
    codes = fields.get("exit_codes") or [0] * len(times)
    if not isinstance(codes, list) or len(codes) != len(times):
        raise ResultsError("the output of hyperfine has not one exit code for each time")
    good = [number(t, "a time") for t, code in zip(times, codes, strict=True) if code == 0]
    if not good:
        raise ResultsError(f"no run of `{at(fields, 'command')}` has ended with code 0")
    return sample("time taken", "s", good, len(times) - len(good))
