"""200 MB up and down against scp with the same cipher: on this machine, at 20 ms and at 100 ms.

Both write to memory. scp logs in each time, as it always does; labkit does so once, as it always
does, and its figures with a login are there too. labkit hashes both sides; scp does neither.
"""

import subprocess
import sys
import tempfile
from contextlib import contextmanager, nullcontext
from pathlib import Path

from _figures import at_least, median, seconds, write

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from labkit.files.lanes import Lanes
from tests.helpers.sshd import known, reached, serving
from tests.helpers.wire import delayed

PROGRAMS = ("scp",)

MB, ROUNDS = 200, 5
MEMORY = "/dev/shm"
# round trip in seconds: what the ratio should be down, and up
TARGETS = {0.0: (0.9, 0.9), 0.02: (1.5, 1.5), 0.1: (8, 5)}


@contextmanager
def way(server, round_trip):
    """The port to log in at, its key known."""
    with delayed(server.port, round_trip) if round_trip else nullcontext(server.port) as port:
        public = (server.folder / "host_ed25519.pub").read_text()
        (server.folder / "known_hosts").write_text(known(port, public))
        yield port


def scp(at, source, target):
    words = ["scp", "-q", "-F", "none", "-c", "aes128-gcm@openssh.com", "-P", str(at.port), "-i",
             at.key, "-o", f"UserKnownHostsFile={at.known_hosts[0]}", source, target]  # fmt: skip
    subprocess.run(words, check=True)


def one_stream(action):
    """The same, through one stream of the usual width: what labkit/files/lanes.py is for."""
    up, down = Lanes.up, Lanes.down
    Lanes.up = Lanes.down = lambda host: Lanes(host, 1)
    try:
        action()
    finally:
        Lanes.up, Lanes.down = up, down


def measured(server, folder, round_trip):
    there, here = folder / "there", folder / "here"
    with way(server, round_trip) as port:
        at = server.address(port=port)
        with reached(at) as host:
            host.check("true")
            actions = {
                "down": lambda: host.get_file(str(there), here),
                "up": lambda: host.put(there, str(here)),
                "scp down": lambda: scp(at, f"{at.user}@127.0.0.1:{there}", here),
                "scp up": lambda: scp(at, there, f"{at.user}@127.0.0.1:{here}"),
            }
            if round_trip == max(TARGETS):
                actions |= {"one down": lambda: one_stream(actions["down"]),
                            "one up": lambda: one_stream(actions["up"])}  # fmt: skip
            times = {name: [] for name in [*actions, "login"]}
            for _ in range(ROUNDS if round_trip < 0.1 else 3):
                for name, action in actions.items():
                    times[name].append(seconds(action))
                    assert here.stat().st_size == there.stat().st_size
                    here.unlink()
                host.close()
                times["login"].append(seconds(lambda: host.check("true")))
    return {name: median(taken) for name, taken in times.items()}


def figures(round_trip, taken):
    at = f"at {1000 * round_trip:g} ms" if round_trip else "on this machine"
    for way, target in zip(("down", "up"), TARGETS[round_trip], strict=True):
        peer, peer_rate = f"scp {way}, MB/s", MB / taken[f"scp {way}"]
        id = f"{way}-{1000 * round_trip:g}"
        yield at_least(id, f"{MB} MB {way} {at}, MB/s", MB / taken[way], peer, peer_rate, target)
        cold = MB / (taken[way] + taken["login"])
        if f"one {way}" in taken:
            yield at_least(f"{id}-lanes", f"{MB} MB {way} {at}, MB/s", MB / taken[way],
                           "through one stream of the usual width", MB / taken[f"one {way}"],
                           1.2)  # fmt: skip
        yield at_least(f"{id}-login", "the same and a login, MB/s", cold, peer, peer_rate, target)


def main():
    with (
        tempfile.TemporaryDirectory() as keys,
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        serving(Path(keys)) as server,
    ):
        with open("/dev/urandom", "rb") as source:
            (Path(folder) / "there").write_bytes(source.read(MB * 1_000_000))
        found = {one: measured(server, Path(folder), one) for one in TARGETS}
    write("files", [one for way, taken in found.items() for one in figures(way, taken)])


if __name__ == "__main__":
    main()
