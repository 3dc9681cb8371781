"""Commands a second on one open connection, against paramiko as it comes, on one sshd."""

import sys
import tempfile
from pathlib import Path

import paramiko
from _figures import at_least, median, seconds, write

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.sshd import reached, serving

ROUNDS, COMMANDS = 5, 40


def as_it_comes(server):
    client = paramiko.SSHClient()
    client.load_host_keys(str(server.folder / "known_hosts"))
    at = server.address()
    client.connect(at.control, at.port, at.user, key_filename=at.key, allow_agent=False)
    return client


def plain(client):
    for _ in range(COMMANDS):
        _, out, _ = client.exec_command("true")
        out.channel.recv_exit_status()


def ours(server_host):
    for _ in range(COMMANDS):
        server_host.check("true")


def main():
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder)) as server,
        reached(server.address()) as labkit,
        as_it_comes(server) as peer,
    ):
        plain(peer)
        ours(labkit)
        times = [
            (seconds(lambda: ours(labkit)), seconds(lambda: plain(peer))) for _ in range(ROUNDS)
        ]
    rate, peer_rate = (COMMANDS / median(column) for column in zip(*times, strict=True))
    write("ssh", [at_least("commands-per-second", "commands a second on one connection", rate,
                           "paramiko as it comes", peer_rate, 4)])  # fmt: skip


if __name__ == "__main__":
    main()
