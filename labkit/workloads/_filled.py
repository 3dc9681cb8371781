"""A shop that was filled on this machine, for a guest of a box: there it would take minutes."""

import hashlib
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from labkit.errors import HostError
from labkit.host import Host
from labkit.machine import account
from labkit.shop import kit
from labkit.shop.answers import Listening
from labkit.shop.filling import awaited, fill_stock

PROGRAMS = ("chown", "gzip", "setpriv", "sh", "tar")

UNPACK_SECONDS, READY_SECONDS = 180, 30.0
ENGINE, LOCAL = "postgresql", "127.0.0.1"
NOBODY = 65534
"""The user that a database runs as in a guest of QEMU, which knows nobody else."""
OWNER = "id -u postgres 2> /dev/null || id -u nobody 2> /dev/null || echo 65534"
ON_ITS_DISK = "/run/labkit/scratch"
"""The disk's place in such a guest, if it has any; the rest of it is memory."""
MARK = "filled"
"""The file that says what the database was filled with."""
OPTIONS = ("fast", "64", "8")
"""Not durable, MiB of memory, connections: what is only filled need not survive a power failure."""


def place(server: Host, usual: str) -> str:
    """The folder that a guest of a box keeps shops in: on its disk, if it has one."""
    return f"{ON_ITS_DISK}/shop" if server.run("test", "-d", ON_ITS_DISK).ok else usual


def there(server: Host, folder: str, size: str, seed: int) -> bool:
    """Whether such a database was brought, by a labkit with the same scripts."""
    return server.run("cat", f"{folder}/{MARK}").stdout.strip() == _mark(size, seed)


def bring_shop(server: Host, folder: str, size: str, seed: int) -> None:
    """Unpack the files of a database that was filled here, unless they are there."""
    if there(server, folder, size, seed):
        return
    server.check("rm", "-rf", folder)
    server.check("mkdir", "-p", "-m", "711", folder)
    server.check("tar", "-x", "-z", "-f", "-", "-C", folder, stdin=filled(size, seed),
                 seconds=UNPACK_SECONDS)  # fmt: skip
    owner = server.check("sh", "-c", OWNER).strip()
    if owner != str(NOBODY):
        server.check("chown", "-R", owner, f"{folder}/cluster")
    server.put(f"{_mark(size, seed)}\n".encode(), f"{folder}/{MARK}", 0o644)


def _mark(size: str, seed: int) -> str:
    parts = (kit.packed(), kit.SERVE_DATABASE.read_bytes(), f"{ENGINE} {size} {seed}".encode())
    return f"{ENGINE}-{size}-{seed}-{hashlib.sha256(b''.join(parts)).hexdigest()[:16]}"


def filled(size: str, seed: int) -> bytes:
    """The files of a database with a shop's stock; made once, and then found."""
    name = f"shops/{_mark(size, seed)}.tar.gz"
    return account.kept(name, lambda at: _make(at, size, seed)).read_bytes()


def _make(at: Path, size: str, seed: int) -> None:
    for old in at.parent.glob(f"{ENGINE}-{size}-{seed}-*"):
        old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="labkit-") as parent:
        Path(parent).chmod(0o711)
        folder = Path(parent, ENGINE)
        with _served_here(folder) as listening:
            secret = (folder / "secret").read_text().strip()
            awaited(listening, secret)
            fill_stock(listening, secret, size, seed)
        with tarfile.open(at, "w:gz", compresslevel=1) as archive:
            for path in sorted(folder.iterdir()):
                archive.add(path, path.name, filter=_of_nobody)


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    inner = member.name.split("/")[0] == "cluster"
    member.uid = member.gid = NOBODY if inner else 0
    member.uname = member.gname = ""
    return member


# It ends with the thread that serves it, even if that is killed.
def free_port(address: str) -> int:
    """A port of this machine that nobody listens on, unless somebody takes it meanwhile."""
    with socket.create_server((address, 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def _served_here(folder: Path) -> Iterator[Listening]:
    port, log = free_port(LOCAL), folder.with_suffix(".log")
    words = ("sh", kit.SERVE_DATABASE, folder, LOCAL, str(port), *OPTIONS)
    with log.open("wb") as out:
        serving = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *words], stdout=out, stderr=out
        )
    try:
        _await(serving, port, log)
        yield Listening.of(f"shop@{LOCAL}:{port}")
    finally:
        serving.terminate()
        serving.wait()


def _await(serving: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until and serving.poll() is None:
        with closing(socket.socket()) as asking:
            if not asking.connect_ex((LOCAL, port)):
                return
        time.sleep(0.05)
    text = log.read_text("utf-8", "replace")
    raise HostError("no database can be filled here to be brought", said=text)
