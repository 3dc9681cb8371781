"""A database for a guest of a box: this machine's own, with all that it needs, and filled here.

Guests of QEMU have a choice of this machine's programs in their memory. A database is too large to
be among them always, so that it is brought when it is asked for. Guests of User-Mode Linux have
all programs of this machine. Both get the files of a database with a shop's stock: to fill it there
would take minutes.
"""

import hashlib
import io
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from labkit.errors import HostError
from labkit.host import Host
from labkit.machine import account
from labkit.setting import Words
from labkit.shop import kit
from labkit.shop.answers import Listening
from labkit.shop.filling import awaited, fill_stock
from labkit.transports.local import Local
from labkit.workloads._server import serving

PROGRAMS = ("chown", "gzip", "setpriv", "sh", "tar")

OF_A_BOX = "test -r /lib/modules/order || grep -q ' rootfstype=hostfs ' /proc/cmdline"
"""The test for a box's guest: what one of QEMU has begun with, or one of User-Mode Linux."""
LIBRARY = re.compile(r"(/\S+) \(0x")
TREES = {
    "nginx": ("/usr/sbin/nginx",),
    "postgresql": (
        "/usr/lib/postgresql/*/bin/postgres", "/usr/lib/postgresql/*/bin/initdb",
        "/usr/lib/postgresql/*/lib/plpgsql.so", "/usr/lib/postgresql/*/lib/dict_snowball.so",
        "/usr/share/postgresql/*/*.*", "/usr/share/postgresql/*/timezonesets/*",
        "/usr/share/postgresql/*/tsearch_data/*", "/usr/share/postgresql/*/extension/plpgsql*",
    ),
    "arrays": ("/usr/sbin/mdadm", "/usr/sbin/dmsetup", "/usr/sbin/blkid", "/usr/bin/fio",
               "/usr/bin/umount"),
    "mail": (
        "/usr/sbin/postconf", "/usr/lib/postfix/sbin/*", "/usr/lib/postfix/*.so",
        "/usr/sbin/dovecot", "/usr/bin/doveconf", "/usr/lib/dovecot/*.so.0",
        "/usr/lib/dovecot/log", "/usr/lib/dovecot/[a-km-z]*",
        "/usr/lib/dovecot/modules/libssl_iostream_openssl.so",
    ),
}  # fmt: skip
ALWAYS = ("/usr/bin/setpriv",
          *(f"/usr/share/zoneinfo/{zone}" for zone in ("UTC", "Etc/UTC", "GMT")))  # fmt: skip
UNPACK_SECONDS, READY_SECONDS = 180, 30
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


def could_bring(engine: str, server: Host) -> bool:
    """Whether it is a guest of a box on this machine, and this machine has the database."""
    return bool(list(_files(engine))[len(ALWAYS) :]) and server.run("sh", "-c", OF_A_BOX).ok


def bring(engine: str, server: Host) -> None:
    """Unpack the database there, at the places that it has here."""
    if not could_bring(engine, server):
        raise HostError(f"{server.name} has no {engine}, and it cannot be copied there")
    files = frozenset(server.run("ls", *contents(engine)).stdout.split())
    server.check("tar", "-x", "-z", "-f", "-", "-C", "/", "--skip-old-files",
                 stdin=packed(engine, files), seconds=UNPACK_SECONDS)  # fmt: skip


@lru_cache(maxsize=4)
def contents(engine: str) -> tuple[str, ...]:
    """The files of a database and all libraries that they need."""
    files = list(_files(engine))
    programs = [file for file in files if "/share/" not in file]
    result = subprocess.run(["ldd", *programs], capture_output=True, text=True)
    return tuple(sorted({*files, *LIBRARY.findall(result.stdout)}))


@lru_cache(maxsize=2)
def packed(engine: str, files: frozenset[str]) -> bytes:
    """All of it that is not there yet."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1, dereference=True) as archive:
        for path in contents(engine):
            if path not in files:
                archive.add(path)
    return content.getvalue()


def _files(engine: str) -> Iterator[str]:
    yield from ALWAYS
    for pattern in TREES[engine]:
        yield from (str(path) for path in Path("/").glob(pattern[1:]) if path.is_file())


# --- filled -------------------------------------------------------------------------------------


def place(server: Host, usual: str) -> str:
    """The folder that a guest of a box keeps shops in: on its disk, if it has one."""
    return f"{ON_ITS_DISK}/shop" if server.run("test", "-d", ON_ITS_DISK).ok else usual


def there(server: Host, folder: str, size: str, seed: int) -> bool:
    """Whether such a database was brought, by a labkit with the same scripts."""
    return server.run("cat", f"{folder}/{MARK}").stdout.strip() == _mark(size, seed)


def bring_shop(server: Host, folder: str, size: str, seed: int) -> None:
    """Unpack the files of a database that was filled here, once, unless they are there."""
    if there(server, folder, size, seed):
        return
    name = f"shops/{_mark(size, seed)}.tar.gz"
    content = account.kept(name, lambda at: _make(at, size, seed)).read_bytes()
    server.check("rm", "-rf", folder)
    server.check("mkdir", "-p", "-m", "711", folder)
    server.check("tar", "-x", "-z", "-f", "-", "-C", folder, stdin=content, seconds=UNPACK_SECONDS)
    owner = server.check("sh", "-c", OWNER).strip()
    if owner != str(NOBODY):
        server.check("chown", "-R", owner, f"{folder}/cluster")
    server.put(f"{_mark(size, seed)}\n".encode(), f"{folder}/{MARK}", 0o644)


def _mark(size: str, seed: int) -> str:
    parts = (kit.packed(), kit.SERVE_DATABASE.read_bytes(), f"{ENGINE} {size} {seed}".encode())
    return f"{ENGINE}-{size}-{seed}-{hashlib.sha256(b''.join(parts)).hexdigest()[:16]}"


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


# It ends with this process, even if that is killed.
@contextmanager
def _served_here(folder: Path) -> Iterator[Listening]:
    def words(port: int) -> Words:
        return ("sh", str(kit.SERVE_DATABASE), str(folder), LOCAL, str(port), *OPTIONS)

    try:
        with serving(Host("here", LOCAL, Local("here")), words, seconds=READY_SECONDS) as port:
            yield Listening.of(f"shop@{LOCAL}:{port}")
    except HostError as error:
        problem = "no database can be filled here to be brought"
        raise HostError(problem, said=error.said or error.what) from None
