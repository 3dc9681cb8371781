"""How long each study takes, from no box to the report, and what came on top of measuring (T9).

`python tests/bench/studies.py` measures studies on recorded data and quick ones, in minutes;
`python tests/bench/studies.py default`, with the names of some studies if need be, those of the
usual length, in half an hour. The box is one of its own; the notebook and the report are included.
At the end comes all of it as a table of Markdown.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _figures import at_most, seconds, target, write

from labkit import box, studies
from labkit.results import Results
from labkit.runs.overhead import overhead

NAME = "bench-run"
LIMITS = {"recorded": 10, "quick": 60, "default": 300}
SHARE = 0.05


def main(asked):
    lengths = [word for word in asked if word in LIMITS] or ["recorded", "quick"]
    names = [word for word in asked if word not in LIMITS] or studies.names()
    costs = {}
    found = [one for name in names for length in lengths for one in measured(name, length, costs)]
    write("studies", found)
    print(markdown(names, {figure.id: figure for figure in found}, costs))


def markdown(names, figures, costs):
    """The times and the overhead of each study; a dash is for what was not measured."""
    lines = [
        "| study | recorded | quick | default | on top at default | changing settings | all else |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in names:
        times = [figures.get(f"time {name} {length}") for length in LIMITS]
        cost = costs.get(name)
        shares = (cost.share, cost.share - cost.own, cost.own) if cost else (None,) * 3
        cells = [f"{time.ours:.1f} s" if time else "-" for time in times]
        cells += [f"{share:.1%}" if share is not None else "-" for share in shares]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def measured(name, length, costs):
    with tempfile.TemporaryDirectory() as folder:
        if length == "recorded":
            up, (took, _) = 0.0, ran(name, "recorded", folder)
            return [timed(name, length, up, took)]
        made_of = {"made_of": topology} if (topology := studies.find(name).topology) else {}
        try:
            up = seconds(lambda: box.up(NAME, **made_of))
            quick = ("--quick",) if length == "quick" else ()
            took, answer = ran(name, str(box.up(NAME, **made_of)), folder, *quick)
            cost = overhead(Results.open(Path(answer["results"])))
        finally:
            box.down(NAME)
    print(f"{name}, {length}: {cost}")
    if length == "default":
        costs[name] = cost
    share = at_most(
        f"T9 {name} {length}", f"{name}, {length}: seconds on top of the measured",
        cost.seconds - cost.measured, "measured", cost.measured, SHARE,
    )  # fmt: skip
    return [timed(name, length, up, took), *([share] if length == "default" else [])]


def timed(name, length, up, took):
    what = f"{name}, {length}: seconds with box ({up:.1f} s), notebook and report"
    return target(f"time {name} {length}", what, up + took, LIMITS[length])


def ran(name, where, folder, *words):
    command = (sys.executable, "-m", "labkit", "run", name, "--where", where, *words, "--json")
    done = []

    def run():
        done.append(subprocess.run(
            command, env={**os.environ, "LABKIT_OUT": folder}, capture_output=True, text=True,
        ))  # fmt: skip

    took = seconds(run)
    assert done[0].returncode == 0, done[0].stderr
    return took, json.loads(done[0].stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
