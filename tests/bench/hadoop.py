"""The same sort twice in one cluster: by labkit's workload, and by Hadoop's own command line.

By hand it is what `hadoop jar` runs, `RunJar` with the jar of examples, timed by a shell beside it.
They take turns in each cluster. Both ask the same daemons on the same host of a box.
"""

import re
import sys
from pathlib import Path

from _figures import at_least, at_most, median, write

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from labkit import box
from labkit.lab import opened
from labkit.workloads import _hadoop
from labkit.workloads.terasort import SLOT, TeraSort

PROGRAMS = ("java",)

NAME, ROUNDS, ROWS = "bench-hadoop", 3, 320_000
LEAST, MOST = 0.9, 1.1
BY_HAND = r"""
cd "$1"; export JAVA_HOME="$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")"
read -r begun _ </proc/uptime
java -Xmx128m @"$2/options" -cp "$(cat "$2/classpath"):$1/conf" -Dlabkit.level=WARN \
    org.apache.hadoop.util.RunJar "$2"/lib/hadoop-mapreduce-examples-*.jar \
    terasort "$3" "$4" || exit
read -r ended _ </proc/uptime
echo "from $begun to $ended"
"""
TOOK = re.compile(r"from ([\d.]+) to ([\d.]+)")


def took(text):
    """Seconds between the two moments."""
    begun, ended = TOOK.search(text).groups()
    return float(ended) - float(begun)


def by_hand(cluster, made):
    """Seconds of a sort that Hadoop's own command starts."""
    words = (cluster.folders[cluster.master.name], _hadoop.HOME, "/rows", made)
    return took(cluster.master.check("sh", "-c", BY_HAND, "sort", *words, seconds=600))


def ours(cluster, made):
    """Seconds of a sort as the workload starts it."""
    return took(cluster.job("examples.terasort.TeraSort", "/rows", made))


def pairs(hosts):
    """Seconds of both, in turn, in one cluster after another."""
    load = TeraSort()
    values = {"replication": 1, "block": load.block << 20, "slot": SLOT, "memory": load.memory,
              "maps": load.maps, "reduces": load.reduces}  # fmt: skip
    for number in range(ROUNDS):
        with _hadoop.cluster(hosts["client"], {"server": hosts["server"]}, values, {}) as cluster:
            cluster.job("examples.terasort.TeraGen", str(ROWS), "/rows")
            ways = [ours, by_hand][:: 1 if number % 2 else -1]
            times = {way: way(cluster, f"/{way.__name__}") for way in ways}
            yield times[ours], times[by_hand]


def main():
    """Three clusters in a box of its own."""
    try:
        with opened(box.up(NAME, made_of="hadoop")) as lab:
            if not _hadoop.installed(lab.host("server")):
                sys.exit("to get Hadoop: labkit prepare hadoop_v6")
            mine, theirs = map(median, zip(*pairs(lab.hosts), strict=True))
    finally:
        box.down(NAME)
    what, peer = "TeraSort of 32 MB, s", "Hadoop's own command line"
    write("hadoop", [
        at_most("T46-most", what, mine, peer, theirs, MOST),
        at_least("T46-least", what, mine, peer, theirs, LEAST),
    ])  # fmt: skip


if __name__ == "__main__":
    main()
