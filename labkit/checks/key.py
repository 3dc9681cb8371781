"""Is the host's key the one that we know? Nobody logs in for this, but at jump hosts."""

from collections.abc import Iterator

from labkit.check import FAILURE, OK, Check, Finding, Subject
from labkit.errors import HostKeyRefused
from labkit.ssh.certificates import fingerprint, kind_of
from labkit.ssh.connection import shaken_hands
from labkit.ssh.known_hosts import KnownHosts


def _look(place: Subject) -> Iterator[Finding]:
    target = place.target
    known_hosts = KnownHosts.read(target.known_hosts)
    try:
        client = shaken_hands(target, known_hosts.algorithms(target.known_as))
        try:
            known_hosts.verify(target.name, target.known_as, client.shown, target.trust)
        finally:
            client.close()
    except HostKeyRefused as error:
        # Of a jump host too: then the hint has the command for that one.
        command = error.hint.partition("keep the key: ")[2]
        yield Finding(FAILURE, error.what, error.said, command or error.hint)
        return
    yield Finding(OK, f"{kind_of(client.shown)} {fingerprint(client.shown)} is known")


check = Check("the host's key is known", _look, after="port", by_ssh=True)
