"""One SSH tool at one task, in a process of its own; prints what it took as JSON.

    _peers.py TOOL commands COUNT HOSTS     COUNT commands in turn on one open connection
    _peers.py TOOL eight COUNT HOSTS        the same, eight of them at any time
    _peers.py TOOL fleet 1 HOSTS            one command on each host, before and after logging in

HOSTS is a JSON file: a list of objects with port, user, key and known_hosts. Imports are not timed.
"""

import asyncio
import json
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

# By its path: `true` alone is a word of most login shells, which then start nothing.
PROGRAM = "/bin/true"
EIGHT = 8


class Paramiko:
    """As its documentation shows, with host keys checked."""

    def __init__(self):
        import paramiko

        self.paramiko = paramiko

    def connect(self, host):
        client = self.paramiko.SSHClient()
        client.load_host_keys(host["known_hosts"])
        client.connect("127.0.0.1", host["port"], host["user"], key_filename=host["key"],
                       allow_agent=False, look_for_keys=False)  # fmt: skip
        return client

    def run(self, client):
        _, out, _ = client.exec_command(PROGRAM)
        assert out.channel.recv_exit_status() == 0
        out.read()

    def fleet(self, hosts):
        with ThreadPoolExecutor(len(hosts)) as pool:
            clients = []
            yield lambda: clients.extend(pool.map(self._first, hosts))
            yield lambda: list(pool.map(self.run, clients))

    def _first(self, host):
        client = self.connect(host)
        self.run(client)
        return client


class Asyncssh:
    def __init__(self):
        import asyncssh

        self.asyncssh = asyncssh
        self.loop = asyncio.new_event_loop()

    async def opened(self, host):
        return await self.asyncssh.connect(
            "127.0.0.1", host["port"], username=host["user"], client_keys=[host["key"]],
            known_hosts=host["known_hosts"], agent_path=None, config=None,
        )  # fmt: skip

    def connect(self, host):
        return self.loop.run_until_complete(self.opened(host))

    async def command(self, connection):
        assert (await connection.run(PROGRAM)).exit_status == 0

    def run(self, connection):
        self.loop.run_until_complete(self.command(connection))

    # sshd counts a session for a moment after its end, and refuses the eleventh (MaxSessions).
    def eight(self, connection, count):
        async def some():
            left = count // EIGHT
            while left:
                with suppress(self.asyncssh.ChannelOpenError):
                    await self.command(connection)
                    left -= 1

        async def all_of_them():
            await asyncio.gather(*(some() for _ in range(EIGHT)))

        self.loop.run_until_complete(all_of_them())

    def fleet(self, hosts):
        connections = []

        async def first(host):
            connections.append(await self.opened(host))
            await self.command(connections[-1])

        async def all_of(work, those):
            await asyncio.gather(*map(work, those))

        yield lambda: self.loop.run_until_complete(all_of(first, hosts))
        yield lambda: self.loop.run_until_complete(all_of(self.command, connections))


class Labkit:
    def __init__(self):
        from labkit.host import Host
        from labkit.ssh.connection import Address
        from labkit.transports.ssh import Ssh

        self.host, self.address, self.ssh = Host, Address, Ssh

    def connect(self, host):
        at = self.address("bench", "127.0.0.1", host["port"], host["user"], host["key"],
                          (host["known_hosts"],))  # fmt: skip
        return self.host("bench", "127.0.0.1", self.ssh(at))

    def run(self, host):
        assert host.run(PROGRAM).code == 0

    def eight(self, host, count):
        with ThreadPoolExecutor(EIGHT) as pool:
            list(pool.map(lambda _: self.run(host), range(count)))

    def fleet(self, hosts):
        from labkit.fleet.fleet import Fleet

        fleet = Fleet({str(host["port"]): self.connect(host) for host in hosts})
        yield lambda: fleet.run(PROGRAM).check()
        yield lambda: fleet.run(PROGRAM).check()


TOOLS = {"paramiko": Paramiko, "asyncssh": Asyncssh, "labkit": Labkit}


def took(action):
    before = resource.getrusage(resource.RUSAGE_SELF)
    begun = time.perf_counter()
    action()
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall, "cpu": cpu}


def main():
    name, task, count, hosts = sys.argv[1:]
    tool, hosts, count = TOOLS[name](), json.loads(Path(hosts).read_text()), int(count)
    if task == "fleet":
        steps = tool.fleet(hosts)
        found = {"cold": took(next(steps)), "warm": took(next(steps))}
    else:
        connection = tool.connect(hosts[0])
        for _ in range(3):
            tool.run(connection)
        if task == "eight":
            tool.eight(connection, 8 * EIGHT)
            found = took(lambda: tool.eight(connection, count))
        else:
            found = took(lambda: [tool.run(connection) for _ in range(count)])
    print(json.dumps(found), flush=True)
    os._exit(0)  # not all of them let their threads end


if __name__ == "__main__":
    main()
