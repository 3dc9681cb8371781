"""The users of WebSessions beside wrk2: pages that a stall of the server makes late, and CPU time.

    python tests/bench/web_users.py [WRK2]

A server stalls once for a second. Both ask as often, for the same time. An open load finds every
page late that was due meanwhile; a closed loop finds one for each of its connections. wrk2 tells
both: each time counted from when it was due, and from when it was sent. Without the path of a wrk2
only our users are shown.

Then nginx and its application have one CPU and the users the other one: who of both is late first?
"""

import asyncio
import contextlib
import os
import re
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "helpers")]

from http_here import answering  # noqa: E402

from labkit.host import Host  # noqa: E402
from labkit.transports.local import Local  # noqa: E402
from labkit.workloads import web  # noqa: E402
from labkit.workloads._web_users import WebTask, attempt  # noqa: E402

PROGRAMS = ("wrk2",)

STALL, LIMIT = 1.0, 0.3
RATE, CONNECTIONS = 50, 25
CALIBRATION = 10.0
"""Seconds that wrk2 throws away at its beginning."""
SECONDS = 12.0
# A line of wrk2's spectrum: milliseconds, and the share of requests that took no longer.
POINT = re.compile(r"^ +([\d.]+) +([\d.]+) +\d+ +(?:[\d.]+|inf)$", re.MULTILINE)


@contextlib.contextmanager
def stalling(after):
    """A server that answers at once, but for one second from `after` on; its port."""
    begins = time.monotonic() + after

    async def wait():
        now = time.monotonic() - begins
        if 0 < now < STALL:
            await asyncio.sleep(STALL - now)

    with answering(wait) as port:
        yield port


def task(port, users, **more):
    here = Host("here", "127.0.0.1", Local("here"))
    trust = web.CERTIFICATE.search(here.check("sh", "-c", web.IDENTITY))[0]
    return WebTask("download", web.SITES["download"], [["127.0.0.1", port, port]], trust, users, 1,
                   0.1, SECONDS, 0.0, 1.0, LIMIT, 2 * LIMIT, 1, 10_000, **more)  # fmt: skip


def of_ours():
    """The share of pages later than the limit: each user asks for one a second on average."""
    with stalling(SECONDS / 2) as port:
        trial = attempt(task(port, RATE), RATE)
    return 1 - trial["good"] / trial["pages"]


def of_wrk2(program, flag):
    with stalling(CALIBRATION + SECONDS / 2) as port:
        words = [program, "-t1", f"-c{CONNECTIONS}", f"-d{CALIBRATION + SECONDS:.0f}s",
                 f"-R{RATE}", flag, f"http://127.0.0.1:{port}/page"]  # fmt: skip
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    spectrum = output[output.index("Uncorrected" if flag == "--u_latency" else "Percentile") :]
    within = [float(share) for ms, share in POINT.findall(spectrum) if float(ms) <= 1000 * LIMIT]
    return 1 - max(within)


def most():
    """More and more users of the bank, by TLS, until the server or they are late."""
    here = Host("here", "127.0.0.1", Local("here"))
    identity = here.check("sh", "-c", web.IDENTITY)
    os.sched_setaffinity(0, {1})
    with web._serve(here, identity) as port:
        os.sched_setaffinity(0, {0})
        for users in (50, 100, 200, 400, 800, 1600):
            asked = replace(task(port, users), site="banking", seconds=4.0,
                            servers=[["127.0.0.1", port, port + web.SECURE]],
                            identity=web.CERTIFICATE.search(identity)[0])  # fmt: skip
            trial = attempt(asked, users)
            shown = ("pages", "good", "busy", "late", "behind", "failed")
            print(f"{users} users:", *(f"{name} {trial[name]}" for name in shown), flush=True)


if __name__ == "__main__":
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    expected = (STALL - LIMIT) / SECONDS
    print(f"due in a stall, and late: {expected:.1%}; ours: {of_ours():.1%}")
    for program in sys.argv[1:]:
        print(f"wrk2: {of_wrk2(program, '--latency'):.1%}, as a closed loop: "
              f"{of_wrk2(program, '--u_latency'):.1%}")  # fmt: skip
    most()
