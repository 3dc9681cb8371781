"""What each piece of labkit/ssh that reaches into paramiko gains: labkit without it, in one run.

A piece that gains less than a fifth on commands a second (T1), on seconds a command at 20 ms (T2),
or on 32 hosts that are logged in (T3) is not worth what it costs to keep up with paramiko.
"""

import argparse
import json
import sys

from _figures import OUT, median
from _peer_python import python_with
from _without import PIECES
from ssh import ROUND_TRIP, hosts, told

COMMANDS, FAR, HOSTS, GAIN = 150, 15, 32, 1.2
COLD, GAINED = 1.3, ("T1", "T2", "T3 held")
FILE = OUT / "ssh_pieces.json"
TASKS = ("T1", "T2", "T3 cold", "T3 held")


def one_round(python, names, turn):
    """Of each tool by task its seconds; who comes first is another each time."""
    found = {}
    with hosts(1) as near, hosts(1, ROUND_TRIP) as far, hosts(HOSTS) as many:
        for name in [*names[turn % len(names) :], *names[: turn % len(names)]]:
            own = sys.executable if name.startswith("labkit") else python
            whole = told(own, name, "fleet", 1, many)
            found[name] = {
                "T1": told(own, name, "commands", COMMANDS, near)["wall"],
                "T2": told(own, name, "commands", FAR, far)["wall"],
                "T3 cold": whole["cold"]["wall"], "T3 held": whole["warm"]["wall"],
            }  # fmt: skip
    return found


def medians(found):
    """Of each tool by task, how many times as long as labkit whole it took, round by round."""
    whole = found["labkit"]
    return {
        name: {
            task: median([a / b for a, b in zip(own[task], whole[task], strict=True)])
            for task in TASKS
        }
        for name, own in found.items()
    }


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=7)
    asked.add_argument("--add", action="store_true", help="to the rounds of an earlier run")
    given = asked.parse_args()
    names = ["labkit", *(f"labkit:{piece}" for piece in PIECES), "paramiko-nodelay", "asyncssh"]
    python, found = python_with("paramiko", "asyncssh"), {}
    if given.add and FILE.exists():
        found = json.loads(FILE.read_text())["seconds"]
    for turn in range(given.rounds):
        for name, tasks in one_round(python, names, turn).items():
            for task, seconds in tasks.items():
                found.setdefault(name, {}).setdefault(task, []).append(seconds)
        rows = medians(found)
        OUT.mkdir(parents=True, exist_ok=True)
        FILE.write_text(json.dumps({"seconds": found, "ratios": rows}, indent=1) + "\n")
    for name, row in rows.items():
        print(f"{name:25}", *(f"{task} {row[task]:6.2f}" for task in TASKS), kept(name, rows))


def kept(name, rows):
    """What follows for a piece: it stays for what it gains, or where logins would be too slow."""
    row = rows[name]
    if not name.startswith("labkit:"):
        return ""
    slow = row["T3 cold"] > COLD * rows["asyncssh"]["T3 cold"]
    return "stays" if slow or max(row[task] for task in GAINED) >= GAIN else "goes"


if __name__ == "__main__":
    main()
