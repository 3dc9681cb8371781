"""Another user of the machine is there first: what labkit does in places that all users share."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import shops
from brought import HERE

from labkit.box import folder as box_folder
from labkit.box.folder import Folder
from labkit.campaign.scheduler import TEMPORARY, cluster_here, connected, let_go
from labkit.errors import CommandFailed, HostError
from labkit.machine import own_place
from labkit.shop.answers import Refused
from labkit.shop.postgres import Postgres
from labkit.workloads import _database, _own_place
from labkit.workloads._database import WantedShop, serving_shop
from labkit.workloads._server import serving
from labkit.workloads.redis import server_words

PROGRAMS = ("redis-server", "setpriv")
OTHER = 65534
AS_OTHER = ("setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to play another user")


@pytest.fixture
def shared():
    """A folder as /tmp is: everybody may make something there."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="labkit-shared-") as folder:
        os.chmod(folder, 0o1777)
        yield Path(folder)


def other(*words, cwd="/"):
    return subprocess.run([*AS_OTHER, *map(str, words)], cwd=cwd, text=True, capture_output=True)


def first(shared, how):
    """What somebody else has put where our folder is to be."""
    assert other("sh", "-c", how.format(at=f"{shared}/labkit-0")).returncode == 0


THERE_FIRST = {
    "a folder": ("mkdir {at}", "belongs to somebody else"),
    "an open folder": ("mkdir -m 777 {at}", "belongs to somebody else"),
    "a link to a folder of ours": ("ln -s /root {at}", "is a link"),
    "a link to nothing": ("ln -s {at}-none {at}", "is a link"),
    "a file": ("touch {at}", "cannot be made"),
}


@pytest.mark.parametrize("name", THERE_FIRST)
def test_what_somebody_else_has_made_is_refused_before_anything_is_put_there(shared, name):
    how, said = THERE_FIRST[name]
    first(shared, how)
    with pytest.raises(CommandFailed, match=said):
        _own_place.own_folder(HERE, f"{shared}/labkit")
    assert not [*shared.glob("labkit-0-none")]


def test_a_folder_of_ours_is_taken_again_but_not_one_that_others_may_write_to(shared):
    own = Path(_own_place.own_folder(HERE, f"{shared}/labkit"))
    assert own.name == "labkit-0" and own.stat().st_mode & 0o7777 == 0o711
    assert _own_place.own_folder(HERE, f"{shared}/labkit") == str(own)
    assert other("touch", own / "planted").returncode and other("mv", own, shared / "x").returncode
    own.chmod(0o777)
    with pytest.raises(CommandFailed, match="can be written to by others"):
        _own_place.own_folder(HERE, f"{shared}/labkit")


def test_a_folder_in_a_place_of_somebody_else_is_refused(shared):
    other("mkdir", "-m", "755", shared / "theirs")
    with pytest.raises(CommandFailed, match="can be swapped"):
        _own_place.own_folder(HERE, f"{shared}/theirs/labkit")


def test_a_user_without_privileges_has_a_folder_of_his_own(shared):
    words = own_place.words(f"{shared}/labkit")
    assert other(*words).stdout == f"{shared}/labkit-{OTHER}\n"
    _own_place.own_folder(HERE, f"{shared}/labkit")
    assert (shared / f"labkit-{OTHER}").stat().st_uid == OTHER


# Until it was checked, a script that somebody else kept putting there was run as root.
def test_no_database_is_served_from_a_folder_that_somebody_else_has_made(shared, monkeypatch):
    monkeypatch.setattr(_database, "KEPT", f"{shared}/labkit")
    first(shared, "mkdir -m 777 {at}")
    wanted_shop = WantedShop("10MB", 1, False, True, 32, 8)
    with (
        pytest.raises(CommandFailed, match="belongs to somebody else"),
        serving_shop({"server": HERE, "client": HERE}, wanted_shop, 1, 60),
    ):
        pass
    assert not [*shared.glob("labkit-0/*")]


@pytest.mark.slow
def test_a_database_answers_nobody_without_its_password():
    with shops.served() as served:
        with contextlib.closing(Postgres(served.at, served.secret)):
            pass
        for word in ("", "guessed"):
            with pytest.raises(Refused):
                Postgres(served.at, word)
        assert other("cat", f"{served.folder}/secret").returncode


@pytest.mark.parametrize("name", ["a file", "a link", "a folder of theirs"])
def test_the_scratch_of_a_box_that_somebody_else_has_made_is_not_ours(shared, monkeypatch, name):
    monkeypatch.setattr(box_folder, "SCRATCH", shared)
    how = {"a file": "touch {0}", "a link": "ln -s /root {0}", "a folder of theirs": "mkdir {0}"}
    box = Folder("taken")
    assert other("sh", "-c", how[name].format(box.scratch)).returncode == 0
    assert not box.has_scratch
    with pytest.raises(FileExistsError):
        box.scratch.mkdir(0o711)


def test_what_a_killed_process_left_is_removed_unless_somebody_else_planted_it(monkeypatch, shared):
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    child = subprocess.Popen(["true"])
    child.wait()
    ours, theirs = (shared / f"{TEMPORARY}{child.pid}-{end}" for end in ("ours", "theirs"))
    lives = shared / f"{TEMPORARY}{os.getpid()}-lives"
    ours.mkdir(0o700)
    lives.mkdir(0o700)
    (ours / "log").touch()
    assert other("ln", "-s", "/root", theirs).returncode == 0
    with own_place.temporary(TEMPORARY) as place:
        assert place.stat().st_mode & 0o777 == 0o700
        assert not ours.exists() and theirs.is_symlink() and lives.exists()
    assert Path("/root").is_dir()


ASKED = "import sys; from distributed import Client; from distributed.security import Security\n"
ASKED += "pair = Security.temporary() if sys.argv[2] else None\n"
ASKED += "print(Client(sys.argv[1], timeout=5, security=pair).run(__import__('os').getuid))"


def listening(pid):
    """The addresses, in the kernel's hexadecimal words, where a process and its children listen."""
    found = set()
    for one in (pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())):
        inodes = set()
        for path in Path(f"/proc/{one}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(path).removeprefix("socket:[").removesuffix("]"))
        for kind in ("tcp", "tcp6"):
            rows = map(str.split, Path(f"/proc/net/{kind}").read_text().splitlines()[1:])
            found |= {row[1] for row in rows if row[3] == "0A" and row[9] in inodes}
    return found


@pytest.mark.when_changed("labkit/campaign/scheduler.py")
@pytest.mark.slow
def test_nobody_without_its_tls_pair_speaks_to_a_cluster_made_here():
    with cluster_here(1, []) as (address, pair):
        client = connected(address, pair=pair)
        client.wait_for_workers(1, timeout=60)
        assert client.submit(os.getuid).result() == 0
        pids = [client.run_on_scheduler(os.getpid), *client.run(os.getpid).values()]
        ports = set().union(*map(listening, pids))
        assert len(ports) == 5 and all(port.startswith("0100007F:") for port in ports), ports
        plain = address.replace("tls:", "tcp:")
        ways = ((plain, ""), (address, ""), (address, "a pair of theirs"))
        with ThreadPoolExecutor() as pool:
            for done in pool.map(lambda way: other(sys.executable, "-c", ASKED, *way), ways):
                assert done.returncode and done.stdout == "" and "Traceback" in done.stderr
        for port in (int(port.partition(":")[2], 16) for port in ports):
            with socket.create_connection(("127.0.0.1", port), 5) as asks:
                asks.sendall(b"GET /info/main/workers.html HTTP/1.1\r\nHost: x\r\n\r\n")
                answer = b""
                with contextlib.suppress(OSError):
                    answer = asks.recv(100)
                assert answer == b"" or b" 404 " in answer, answer
        let_go(client)


HARM = (
    "CONFIG SET dir /root", "CONFIG SET dbfilename x", "MODULE LOAD /tmp/x.so", "DEBUG SEGFAULT",
    "REPLICAOF 127.0.0.1 1", "SLAVEOF 127.0.0.1 1", "EVAL return 0",
)  # fmt: skip


def test_a_redis_server_of_ours_can_be_made_to_write_or_run_no_file():
    with (
        serving(HERE, lambda port: server_words("127.0.0.1", port)) as port,
        socket.create_connection(("127.0.0.1", port), 5) as asks,
    ):
        for harm in HARM:
            asks.sendall(f"{harm} 0\r\n".encode())
            assert asks.recv(200).startswith(b"-ERR unknown command"), harm
        asks.sendall(b"PING\r\n")
        assert asks.recv(20) == b"+PONG\r\n"


def test_a_spool_of_jobs_that_somebody_else_has_made_is_refused(shared):
    other("mkdir", "-m", "777", shared / "jobs")
    with pytest.raises(HostError, match="belongs to somebody else"):
        HERE.start("true", key="a", seconds=9, spool=str(shared / "jobs"))
    other("ln", "-s", "/root", shared / "link")
    with pytest.raises(HostError, match="is a link"):
        HERE.start("true", key="a", seconds=9, spool=str(shared / "link"))
    assert not [*(shared / "jobs").iterdir()]
