"""How often equal commands are called different, and what a verdict takes: beside others' rules.

`python tests/bench/alarms.py [TRIALS]` makes that many trials with equal commands of about 20 ms,
and a tenth as many with commands that do differ. In each, hyperfine measures both by its defaults,
and `labkit compare` within half a minute; which of them begins is chosen by chance. hyperfine names
no verdict: the rule of its own script `welch_ttest.py`, Welch's t test at 5 %, reads the times
that it exports, and so does benchstat (`go install golang.org/x/perf/cmd/benchstat@latest`).
Every trial is a line of out/bench/alarms.jsonl; `more` goes on there. A hundred trials take about
40 minutes.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import scipy.stats
from _figures import OUT, at_most, beside, median, seconds, write

from labkit.verdict import SAME

PROGRAMS = ("hyperfine",)

TRIALS, RISK = 20, 0.05
LINES = 150_000
PAIRS = {"equal": ("gzip -1 -c", "gzip --fast -c"), "apart": ("gzip -1 -c", "gzip -3 -c")}
"""A and B; the second pair differs by about a third."""


def benchstat(*sides):
    """The p value that benchstat prints of two lists of seconds."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in "ab"]
        for file, times in zip(files, sides, strict=True):
            file.write_text("".join(f"BenchmarkRun 1 {time * 1e9:.0f} ns/op\n" for time in times))
        words = ("benchstat", "-format", "csv", *map(str, files))
        text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return float(re.search(r"^Run,.*p=([\d.]+) ", text, re.MULTILINE)[1])


TESTS = {
    "hyperfine, Welch's t": lambda a, b: scipy.stats.ttest_ind(a, b, equal_var=False).pvalue,
    "benchstat": benchstat,
}
LABKIT = "labkit compare"
TOOLS = (LABKIT, *TESTS)
KEPT = OUT / "alarms.jsonl"


def by_hyperfine(lines, folder):
    """The side that each test calls lower, from the times of one run of hyperfine."""
    file = folder / "times.json"
    words = ("hyperfine", "-N", "--style", "none", "--export-json", str(file), *lines)
    took = seconds(lambda: subprocess.run(words, check=True, capture_output=True))
    a, b = (result["times"] for result in json.loads(file.read_text())["results"])
    faster = "A" if sum(a) / len(a) < sum(b) / len(b) else "B"
    return {name: {"seconds": took, "lower": faster if test(a, b) < RISK else ""}
            for name, test in TESTS.items()}  # fmt: skip


def by_labkit(lines, folder):
    """The side that `labkit compare` calls lower."""
    words = (sys.executable, "-m", "labkit", "compare", "--json", "--minutes", "0.5", *lines)
    env, file = {**os.environ, "LABKIT_OUT": str(folder / "out")}, folder / "answer.json"

    def compare():
        with file.open("w") as answer:
            subprocess.run(words, check=True, env=env, stdout=answer, stderr=subprocess.DEVNULL)

    took = seconds(compare)
    answer = json.loads(file.read_text())
    return {LABKIT: {"seconds": took, "lower": answer["lower"], "same": answer["verdict"] == SAME}}


def trial(pair):
    """Both ways over the same two commands, in a folder of their own."""
    with tempfile.TemporaryDirectory() as name:
        text, answers = Path(name) / "text", {}
        text.write_text("".join(f"{n}\n" for n in range(LINES)))
        lines = [f"{words} {text}" for words in PAIRS[pair]]
        for way in random.sample((by_hyperfine, by_labkit), 2):
            answers |= way(lines, Path(name))
    return {"pair": pair, **answers}


def share(hits, among):
    """A share of trials, with its exact interval."""
    ends = scipy.stats.binomtest(hits, among).proportion_ci(method="exact")
    return f"{hits} of {among} ({ends.low:.3f} to {ends.high:.3f})", ends.low


def figures(trials):
    """Of each tool: alarms of equal commands, sides of those that differ, and seconds."""
    for name in TOOLS:
        of_pair = {
            pair: [entry[name] for entry in trials if entry["pair"] == pair] for pair in PAIRS
        }
        sides = {pair: [entry["lower"] for entry in answers] for pair, answers in of_pair.items()}
        shown, least = share(sum(map(bool, sides["equal"])), len(sides["equal"]))
        what = f"{name}: equal commands called different, {shown}, of which the lower end"
        compared = ("alarms-" + name, what, least, "the risk", RISK)
        yield at_most(*compared, 1.0) if name == LABKIT else beside(*compared)
        right, wrong = (share(sides["apart"].count(side), len(sides["apart"])) for side in "AB")
        what = f"{name}: the faster one named, {right[0]}; the slower, {wrong[0]}, lower end"
        yield beside(f"wrong-{name}", what, wrong[1], "the risk", RISK)
        for pair, answers in of_pair.items():
            took = median([answer["seconds"] for answer in answers])
            yield beside(f"seconds-{pair}-{name}", f"{name}: seconds, {pair}", took, "budget", 30)
    same = [entry[LABKIT]["same"] for entry in trials if entry["pair"] == "equal"]
    what = f"{LABKIT}: equal commands called the same, {share(sum(same), len(same))[0]}"
    yield beside("same", what, sum(same), "trials", len(same))


def main(asked):
    many = next((int(word) for word in asked if word.isdigit()), TRIALS)
    OUT.mkdir(parents=True, exist_ok=True)
    if "more" not in asked:
        KEPT.unlink(missing_ok=True)
    pairs = ["equal"] * many + ["apart"] * max(many // 10, 1)
    for pair in random.sample(pairs, len(pairs)):
        with KEPT.open("a") as kept:
            kept.write(json.dumps(trial(pair)) + "\n")
    write("alarms", [*figures([json.loads(line) for line in KEPT.read_text().splitlines()])])


if __name__ == "__main__":
    main(sys.argv[1:])
