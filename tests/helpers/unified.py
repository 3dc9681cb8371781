"""A box on a machine with control groups of version 2 only, and netem; prints what it was like.

python unified.py        in a guest of QEMU, as its root, by tests/box/test_unified.py
"""

import json
import re
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from labkit import box
from labkit.box.cgroup import cpu_sets, hierarchy
from labkit.lab import opened

PROGRAMS = ("ping", "taskset")

GROUPS = Path("/sys/fs/cgroup")
MADE_OF = """
[hosts.client]
cpus = "first half"
[hosts.server]
cpus = "second half"
[links.client]
delay = "5 ms"
jitter = "1 ms"
[links.server]
loss = "10 %"
rate = "20 Mbit/s"
[containers.bridged]
on = "client"
engine = "crun"
memory = "64M"
"""
EATEN = 150 << 20
EAT = ("sh", "-c", f"head -c {EATEN} /dev/zero | tail -c {EATEN} | wc -c")


def tell(**found):
    print("=", json.dumps(found), flush=True)


@contextmanager
def timed(what):
    start = time.monotonic()
    yield
    tell(what=what, seconds=time.monotonic() - start)


def eaten(host):
    return host.run(*EAT, seconds=120).stdout.strip() == str(EATEN)


def round_trips(lab, role):
    words = ("ping", "-n", "-c", "60", "-i", "0.05", "-W", "2", lab.host(role).address)
    output = lab.host("client").run(*words, seconds=60).stdout
    return [float(ms) for ms in re.findall(r"time=([\d.]+)", output)]


def look(lab, name):
    now = box.status(name)
    tell(state=now.state, links={link.role: vars(link) for link in now.links}, engine=now.engine)
    free = round_trips(lab, "client")
    there = round_trips(lab, "server")
    tell(round_trips={"itself": min(free), "server": sorted(there)})
    tell(eaten={role: eaten(lab.host(role)) for role in ("client", "bridged")})
    words = {"client": "1", "server": "0"}
    left = {role: lab.host(role).run("taskset", "-c", cpu, "true") for role, cpu in words.items()}
    tell(leaves={role: done.ok for role, done in left.items()})
    tell(
        groups=sorted(
            str(at.relative_to(GROUPS)) for at in GROUPS.rglob("labkit-*/*") if at.is_dir()
        )
    )


def main(name="unified"):
    tell(hierarchy=str(hierarchy()), cpus=str(cpu_sets()))
    file = Path("/run/made.toml")
    file.write_text(MADE_OF)
    try:
        with timed("up"):
            path = box.up(name, lambda said: print("#", said, flush=True), made_of=str(file))
        with opened(path) as lab:
            look(lab, name)
    finally:
        with timed("down"):
            box.down(name)
    left = [str(at) for at in (*GROUPS.glob("labkit-*"), *Path("/run/labkit").glob("*"))]
    tell(left=left, done=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
