"""CPU time for each order: our driver against pgbench, on the same statements and the same shop.

pgbench aborts a client whose statement fails, so that here a purchase that finds too little stock
returns 0 instead, for both. Both have four customers, one after the other. pgbench draws one number
for an order where the driver draws all of it, and throws away the rows that the driver counts.

At last the database has one CPU and the driver another one: how busy are both?
"""

import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

PROGRAMS = ("pgbench", "taskset")

sys.path[:0] = [str(Path(__file__).parents[1] / "helpers"), str(Path(__file__).parents[2])]

import shops  # noqa: E402

from labkit.shop.filling import DATABASE  # noqa: E402
from labkit.shop.postgres import ASKS, Postgres  # noqa: E402

SECONDS, ROUNDS = 10, 5
QUIET = """
ALTER FUNCTION purchase RENAME TO loud;
CREATE FUNCTION purchase(who int, net bigint, tax bigint, total bigint, mark bigint, ids int[],
    wanted int[]) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN loud(who, net, tax, total, mark, ids, wanted);
EXCEPTION WHEN SQLSTATE 'DS001' THEN RETURN 0;
END $$"""


def asked(name, *given):
    words = " ".join(ASKS[name].split())
    for number, value in enumerate(given, 1):
        words = words.replace(f"${number}", value)
    return words


# Five products of each order, and three searches: the means of the mix.
ORDER = f"""
\\set user random(1, 20000)
\\set kind random(1, 16)
\\set first random(1, 2000)
{asked("login", "'user' || :user", "'password'")} \\gset
{asked("category", ":kind", "5")};
{asked("actor", "'BADI BADIBA'", "5")};
{asked("title", "'BABADI'", "5")};
{asked("prices", "ARRAY[:first, :first + 2000, :first + 4000, :first + 6000, :first + 8000]")};
{
    asked(
        "purchase",
        ":user",
        "5000",
        "412",
        "5412",
        "1",
        "ARRAY[:first, :first + 2000, :first + 4000, :first + 6000, :first + 8000]",
        "ARRAY[1, 2, 3, 1, 2]",
    )
};
"""


def used(words, **how):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(words, capture_output=True, text=True, check=True, **how)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = sum(getattr(after, n) - getattr(before, n) for n in ("ru_utime", "ru_stime"))
    return result.stdout, cpu


def pgbench(shop, script):
    words = ["pgbench", "-n", "-h", "127.0.0.1", "-p", str(shop.port), "-U", "shop", "-c", "4",
             "-M", "prepared", "-T", str(SECONDS), "-f", script, DATABASE]  # fmt: skip
    said, cpu = used(words, env={**os.environ, "PGPASSWORD": shop.secret})
    (line,) = [line for line in said.splitlines() if "actually processed" in line]
    return 1e6 * cpu / int(line.split(":")[1].split("/")[0])


def ours(shop):
    words = shop.words("drive", "--users", 4, "--warm-up", 0, "--ramp", 1000, "--new", 0,
                       "--seconds", SECONDS, "--go-on")  # fmt: skip
    output = subprocess.run([str(word) for word in words], capture_output=True, text=True).stdout
    ended = shops.ended(output)  # its marks are there from the round before, which it tells of
    return 1e6 * ended["cpu"] / ended["ended"]


# CPU seconds of the database so far: of its first process and of all that this one has begun.
def spent(first):
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, fields = int(stat.parent.name), stat_of(stat.parent.name)
            ticks += sum(map(int, fields[11:13])) if first in (pid, int(fields[1])) else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def first_of(shop):
    return int((shop.folder / "cluster" / "postmaster.pid").read_text().split()[0])


# Neither waits for a disk, which would leave both idle.
def alone_on(shop, cpu):
    shop.stop()
    shop.start("fast")
    for task in Path(f"/proc/{first_of(shop)}/task").iterdir():
        os.sched_setaffinity(int(task.name), {cpu})  # its children have it from there


def shares(shop):
    """What share of its CPU each uses, over the seconds that are measured."""
    one, other = sorted(os.sched_getaffinity(0))[:2]
    alone_on(shop, one)
    words = shop.words("drive", "--users", 16, "--warm-up", 2, "--ramp", 1000, "--new", 0,
                       "--seconds", SECONDS, "--go-on")  # fmt: skip
    driver = subprocess.Popen(["taskset", "-c", str(other), *map(str, words)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    moments = []
    for line in driver.stdout:
        if line.startswith(("measuring ", "s ")):
            own = sum(int(n) for n in stat_of(driver.pid)[11:13]) / os.sysconf("SC_CLK_TCK")
            moments.append((time.monotonic(), spent(first_of(shop)), own))
    driver.wait()
    seconds, database, own = (b - a for a, b in zip(moments[0], moments[-1], strict=True))
    return {"database_core": database / seconds, "driver_core": own / seconds}


def stat_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def main():
    with shops.served() as shop:
        subprocess.run([str(word) for word in shop.words("drive", "--seconds", 1)], check=True,
                       capture_output=True)  # fmt: skip
        with closing(Postgres(shop.at, shop.secret, DATABASE)) as database:
            database.query(QUIET)
        script = shop.folder.parent / "order.sql"
        script.write_text(ORDER.replace("\\gset", ";"))
        rounds = [(ours(shop), pgbench(shop, script)) for _ in range(ROUNDS)]
        busy = shares(shop) if len(os.sched_getaffinity(0)) > 1 else {}
    found = {
        "driver_us_per_order": statistics.median(one for one, _ in rounds),
        "pgbench_us_per_order": statistics.median(other for _, other in rounds),
        "ratio": statistics.median(one / other for one, other in rounds),
        **busy,
        "rounds": rounds,
    }
    out = Path(os.environ.get("LABKIT_OUT", "out"), "bench", "dvdstore.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=1))
    print(json.dumps({name: value for name, value in found.items() if name != "rounds"}))


if __name__ == "__main__":
    main()
