"""A database for a guest of a box: this machine's own, with all that it needs.

Guests of QEMU have a choice of this machine's programs in their memory. A database is too large to
be among them always, so that it is brought when it is asked for. Guests of User-Mode Linux have
all programs of this machine. Both get the files of a database that was filled here (`_filled.py`).
"""

import io
import re
import subprocess
import tarfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from labkit.errors import HostError
from labkit.host import Host

PROGRAMS = ("gzip", "tar")

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
UNPACK_SECONDS = 180


def could_bring(engine: str, server: Host) -> bool:
    """Whether it is a guest of a box on this machine, and this machine has the database."""
    return bool(list(_files(engine))[len(ALWAYS) :]) and server.run("sh", "-c", OF_A_BOX).ok


def bring(engine: str, server: Host) -> None:
    """Unpack the database there, at the places that it has here."""
    if not could_bring(engine, server):
        raise HostError(f"{server.name} has no {engine}, and it cannot be copied there")
    files = server.run("ls", *contents(engine)).stdout.split()
    server.check("tar", "-x", "-z", "-f", "-", "-C", "/", "--skip-old-files",
                 stdin=packed(engine, frozenset(files)), seconds=UNPACK_SECONDS)  # fmt: skip


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
