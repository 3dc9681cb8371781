"""What labkit and the real ssh say to one file of known hosts."""

import base64
import subprocess

from sshd import key, ssh_accepts

from labkit.errors import HostKeyRefused
from labkit.ssh import certificates, connection
from labkit.ssh.known_hosts import KnownHosts

PROGRAMS = ("ssh-keygen",)


def reading(text):
    """A file that holds this text, as it is read."""
    lines = text.encode("utf-8", "replace").decode("latin-1").split("\n")
    return KnownHosts((), tuple((f"line {n}", line.split("\0")[0]) for n, line in enumerate(lines)))


def dsa():
    """A key of a kind that nobody takes any more."""
    parts = [b"ssh-dss", b"\0" + b"\x81" * 128, b"\0" + b"\x81" * 20, b"\x02", b"\x05"]
    return "ssh-dss " + base64.b64encode(b"".join(map(certificates.packed, parts))).decode()


def hashed(folder, name, public):
    """A name as `ssh-keygen -H` writes it."""
    (folder / "hashing").write_text(f"{name} {public}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", folder / "hashing"], capture_output=True)
    return (folder / "hashing").read_text().split()[0]


def words(server):
    """What the cases are made of: {name} is [address]:port, {old} and {ca} are others' keys."""
    ed = server.public()
    rsa = server.public("rsa") if (server.folder / "host_rsa").exists() else ""
    return {
        "name": server.name, "port": server.port, "ed": ed, "rsa": rsa,
        "old": key(server.folder, "old"), "oldrsa": rsa and key(server.folder, "oldrsa", "rsa"),
        "ca": key(server.folder, "ca"), "cut": ed[:-8], "misnamed": f"ssh-rsa {ed.split()[1]}",
        "signature": rsa.replace("ssh-rsa", "rsa-sha2-512"), "tabbed": ed.replace(" ", " \t"),
        "dsa": dsa(), "hash": hashed(server.folder, server.name, ed), "long": "x" * 1200,
        "barehash": hashed(server.folder, "127.0.0.1", ed),
        "shorthash": hashed(server.folder, server.name, ed)[:-4],
    }  # fmt: skip


def labkit_accepts(server, file):
    """Whether labkit takes the host for the one it knows; nobody logs in."""
    target = server.target(file)
    known_hosts = KnownHosts.read([file])
    client = connection.shaken_hands(target, known_hosts.algorithms(target.known_as))
    try:
        known_hosts.verify("box1", target.known_as, client.shown)
    except HostKeyRefused:
        return False
    finally:
        client.close()
    return True


def both(server, text):
    """Whether labkit does, and whether ssh does."""
    file = server.folder / "asked"
    file.write_bytes(text.format(**words(server)).encode("utf-8", "surrogateescape"))
    return labkit_accepts(server, file), ssh_accepts(server, file)
