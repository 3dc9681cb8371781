"""What the way to a host costs, against other SSH tools on the same sshd in the same run.

Commands a second on one open connection; round trips a command where a round trip takes 20 ms; and
one command on each of 32 hosts. The peers are installed by pip, once, into out/bench/peers.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path

from _figures import at_least, at_most, median, seconds, write
from _hosts import addresses, as_json
from _peer_python import python_with
from _peers import PROGRAM
from wire import delayed

ROUNDS, COMMANDS, HOSTS, ROUND_TRIP = 5, 40, 32, 0.020
TOOLS = ["paramiko", "asyncssh"]
# As the shell on the host starts a program: by a copy of itself.
BY_COPY = "(exec /bin/true </dev/null 2>&1)"
# One that looks for ssh-agents, or for the user's own files, would measure those.
ENVIRONMENT = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}


@contextmanager
def hosts(count, round_trip=0.0):
    """A JSON file that says how to reach so many sshd."""
    with addresses(count, round_trip) as (home, found):
        found = [*map(as_json, found)]
        (home / ".ssh").mkdir()
        known = "".join(Path(host["known_hosts"]).read_text() for host in found)
        (home / ".ssh/known_hosts").write_text(known)
        (home / "hosts.json").write_text(json.dumps(found))
        yield home / "hosts.json"


def told(python, tool, task, count, where):
    script = Path(__file__).with_name("_peers.py")
    result = subprocess.run(
        [python, script, tool, task, str(count), where], capture_output=True, text=True,
        env={**ENVIRONMENT, "HOME": str(where.parent)}, timeout=120,
    )  # fmt: skip
    if result.returncode:
        sys.exit(f"{tool} {task}: {result.stderr}")
    return json.loads(result.stdout.splitlines()[-1])


def in_turn(python, where, count, tools, task="commands"):
    """Seconds a command of each tool, the median of rounds in which each has its turn."""
    times = {tool: [] for tool in tools}
    for _ in range(ROUNDS):
        for tool in tools:
            own = sys.executable if tool == "labkit" else python
            times[tool].append(told(own, tool, task, count, where)["wall"] / count)
    return {tool: median(found) for tool, found in times.items()}


def bare(where):
    """Seconds of one byte there and back on that wire: what no tool can beat."""
    with delayed(echo(), ROUND_TRIP) as port, socket.create_connection(("127.0.0.1", port)) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return median([seconds(lambda: (one.sendall(b"x"), one.recv(1))) for _ in range(40)])


def echo():
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        one, _ = listener.accept()
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while part := one.recv(64):
            one.sendall(part)

    threading.Thread(target=answer, daemon=True).start()
    return listener.getsockname()[1]


def on_this_machine(command, at_once=1):
    """Seconds a command by shells here, as those on the host run it: no SSH, nobody asking."""
    loop = f"i=0; while [ $i -lt 300 ]; do {command}; i=$((i+1)); done"

    def all_of_them():
        for one in [subprocess.Popen(["sh", "-c", loop]) for _ in range(at_once)]:
            one.wait()

    return median([seconds(all_of_them) / 300 / at_once for _ in range(ROUNDS)])


def shells_on_this_machine(count):
    """Seconds until so many shells here, asked all at once, have started a program each: no SSH."""
    ask = f"{PROGRAM} </dev/null; echo done\n".encode()
    with ExitStack() as stack:
        shells = [
            stack.enter_context(subprocess.Popen(["sh"], stdin=-1, stdout=-1, bufsize=0))
            for _ in range(count)
        ]

        def all_of_them():
            for shell in shells:
                shell.stdin.write(ask)
            for shell in shells:
                assert shell.stdout.readline() == b"done\n"

        all_of_them()
        found = median([seconds(all_of_them) for _ in range(ROUNDS)])
        for shell in shells:
            shell.stdin.close()
    return found


def on_one_connection(python):
    with hosts(1) as where:
        near = in_turn(python, where, COMMANDS, ["labkit", *TOOLS])
        floor, many = on_this_machine(BY_COPY), on_this_machine(BY_COPY, 8)
        eight = in_turn(python, where, 8 * COMMANDS, ["labkit", "asyncssh"], "eight")
    with hosts(1, ROUND_TRIP) as where:
        far = in_turn(python, where, COMMANDS // 2, ["labkit", *TOOLS])
        way = bare(where)
    ours = 1 / near.pop("labkit")
    for tool, target in (("asyncssh", 2.5), ("paramiko", 30)):
        yield at_least(f"per-second-{tool}", "commands a second on one connection", ours, tool,
                       1 / near[tool], target)  # fmt: skip
    # What a command costs the host itself bounds what any tool can reach.
    yield at_most("command-floor", "seconds a command on one connection", 1 / ours,
                  "fork and exec by a shell, no SSH", floor, 2)  # fmt: skip
    yield at_least("eight-asyncssh", "commands a second on one connection, eight at once",
                   1 / eight["labkit"], "asyncssh", 1 / eight["asyncssh"], 2.5)  # fmt: skip
    yield at_most("eight-floor", "seconds a command, eight at once", eight["labkit"],
                  "eight shells, no SSH", many, 2)  # fmt: skip
    mine = far.pop("labkit")
    yield at_most("round-trips", "seconds a command at a round trip of 20 ms", mine,
                  "one byte there and back", way, 1.1)  # fmt: skip
    for tool in TOOLS:
        yield at_most(f"round-trips-{tool}", "seconds a command at a round trip of 20 ms", mine,
                      f"{tool} ({far[tool] / way:.2f} round trips)", far[tool], 1)  # fmt: skip


def fleet(python, count, tools):
    """By tool and step, cold or warm: the medians of seconds and of CPU seconds."""
    found = {tool: [] for tool in tools}
    with hosts(count) as where:
        for _ in range(ROUNDS):
            for tool in tools:
                own = sys.executable if tool == "labkit" else python
                found[tool].append(told(own, tool, "fleet", 1, where))
    return {
        tool: {
            step: {what: median([one[step][what] for one in some]) for what in ("wall", "cpu")}
            for step in ("cold", "warm")
        }
        for tool, some in found.items()
    }


def on_many_hosts(python):
    found = fleet(python, HOSTS, ["labkit", *TOOLS])
    ours = found.pop("labkit")
    what = f"one command on {HOSTS} hosts, "
    for tool, peer in found.items():
        yield at_most(f"cold-wall-{tool}", what + "logins included, s", ours["cold"]["wall"], tool,
                      peer["cold"]["wall"], 1.3)  # fmt: skip
        yield at_most(f"cold-cpu-{tool}", what + "logins included, CPU s", ours["cold"]["cpu"],
                      tool, peer["cold"]["cpu"], 1.3)  # fmt: skip
        yield at_most(f"warm-wall-{tool}", what + "logged in before, s", ours["warm"]["wall"], tool,
                      peer["warm"]["wall"], 0.3)  # fmt: skip
    yield at_most("warm-floor", what + "logged in before, s", ours["warm"]["wall"],
                  f"{HOSTS} shells asked at once, no SSH", shells_on_this_machine(HOSTS),
                  2)  # fmt: skip
    yield from grows(python)


def grows(python):
    """The cost of a host does not grow with their number."""
    each = {n: fleet(python, n, ["labkit"])["labkit"] for n in (8, 16, 32)}
    for n in (16, 32):
        for step in ("cold", "warm"):
            yield at_most(f"{step}-{n}", f"one command on {n} hosts, {step}, s a host",
                          each[n][step]["wall"] / n, "on 8 hosts", each[8][step]["wall"] / 8,
                          1.25)  # fmt: skip


def main():
    python = python_with(*TOOLS)
    write("ssh", [*on_one_connection(python), *on_many_hosts(python)])


if __name__ == "__main__":
    main()
