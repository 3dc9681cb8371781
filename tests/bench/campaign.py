"""What a campaign costs on top of its studies, and how it grows with its points (T25).

`python tests/bench/campaign.py` runs the same points in a box three ways: as a campaign, one by one
by `labkit run`, and by papermill's own command, which writes no report. The ways take turns. With
`size` or `beside` it measures that part alone: 1,000 points, or the three ways.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from _figures import at_most, beside, median, seconds, target, write

from labkit import box
from labkit.campaign import points as all_points
from labkit.campaign import report
from labkit.campaign.asked import Campaign
from labkit.campaign.folder import FINISHED, Attempt, CampaignFolder, told
from labkit.campaign.places import Needs, Waiting, to_begin
from labkit.machine.stopping import stop_politely
from labkit.running import notebook

NAME, STUDY = "bench-campaign", "lat_vmxnet3"
SEEDS = (1, 2)
"""Of each point: both take the same time."""
ROUNDS = 3
SHARE = 1.03
MANY = 1000


def main(asked):
    stop_politely()  # so that the box goes down also when somebody ends this
    with tempfile.TemporaryDirectory() as folder:
        parts = {"size": of_size, "beside": on_a_box}
        for name in asked or parts:
            os.environ["LABKIT_OUT"] = folder
            write(f"campaign-{name}", [*parts[name](Path(folder))])


def on_a_box(folder):
    """The three ways, on a box of this benchmark."""
    try:
        yield from beside_others(folder, str(box.up(NAME, made_of="pair")))
    finally:
        box.down(NAME)


def beside_others(folder, lab):
    """The same points three ways, in turns."""
    took = {"campaign": [], "bare": [], "papermill": []}
    ways = {"campaign": as_campaign, "bare": one_by_one, "papermill": by_papermill}
    for number in range(ROUNDS):
        for name in [*ways][number % 3 :] + [*ways][: number % 3]:
            took[name].append(seconds(lambda way=ways[name], n=number: way(folder, lab, n)))
            print(f"{name}: {took[name][-1]:.1f} s", flush=True)
    ours = median(took["campaign"])
    what = f"{len(SEEDS)} points as a campaign, seconds"
    yield at_most("T25 overhead", what, ours, "labkit run", median(took["bare"]), SHARE)
    yield beside(
        "T25 papermill", what, ours, "papermill by hand, without a report",
        median(took["papermill"]),
    )  # fmt: skip


def as_campaign(folder, lab, number):
    file = folder / f"bench-{number}.toml"
    file.write_text(
        f'labs = ["{lab}"]\n[[study]]\nname = "{STUDY}"\nparameters.repeats = 1\n'
        f"parameters.duration = 1\nsweep.seed = {[*SEEDS]}\n"
    )
    run("labkit", "campaign", "run", str(file))


def one_by_one(folder, lab, number):
    for seed in SEEDS:
        given = ("repeats=1", "duration=1", f"seed={seed}")
        words = [*(word for one in given for word in ("-p", one)), "--label", f"bare-{number}"]
        run("labkit", "run", STUDY, "--where", lab, *words, "--json")


def by_papermill(folder, lab, number):
    source = str(notebook.notebook(STUDY))
    for seed in SEEDS:
        target = str(folder / f"papermill-{number}-{seed}.ipynb")
        given = {"where": lab, "repeats": 1, "duration": 1, "seed": seed}
        given["label"] = f"papermill-{number}"
        words = [word for name, value in given.items() for word in ("-p", name, str(value))]
        run("papermill", source, target, *words, "--no-progress-bar", "-k", "python3")


def run(*words):
    result = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def of_size(folder):
    """What a thousand points cost beside their work: to choose from, to read, to report."""
    file = folder / "many.toml"
    file.write_text(f'labs = ["recorded"]\nrepetitions = {MANY}\n[[study]]\nname = "{STUDY}"\n')
    campaign = Campaign.read(file)
    points = all_points(campaign)
    many = CampaignFolder.begin(campaign, points)
    for point in points:
        many.of(point).mkdir(parents=True)
        Attempt.begin(1).ended(FINISHED).keep(many.of(point))
    waiting = [Waiting(point, Needs(frozenset([point.name]))) for point in points]
    busy = [Needs(frozenset([str(n)])) for n in range(7)]
    limits = {
        "choose": (lambda: to_begin(waiting, busy, 0.0), "choose one to begin", 0.1),
        "read": (lambda: told(CampaignFolder.open(many.path)), "read all attempts", 5.0),
        "report": (lambda: report.write(many), "write the index", 10.0),
    }
    for name, (action, what, limit) in limits.items():
        what = f"{MANY} points: seconds to {what}"
        yield target(f"T25 {name}", what, seconds(action), limit)
    index = json.dumps(told(many))
    yield beside("T25 size", f"{MANY} points: bytes of the answer", len(index), "a point", MANY)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield target("T25 memory", f"{MANY} points: MiB at most", peak, 400)


if __name__ == "__main__":
    main(sys.argv[1:])
