"""Host certificates: what they mean to ssh they mean to labkit, and none is taken unsigned."""

import base64
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import cache
from random import Random

import pytest
from agreed import both, labkit_accepts, reading, words
from sshd import certify, key, ssh_accepts, sshd

from labkit.errors import HostKeyRefused
from labkit.ssh import connection
from labkit.ssh.certificates import HostCertificate
from labkit.ssh.known_hosts import Name

HOST = ("-h", "-n", "127.0.0.1")
PAST, FUTURE = ("-V", "20200101:20200102"), ("-V", "20400101:20400102")
CERTIFIED = {
    "good": HOST,
    "for several names": ("-h", "-n", "elsewhere,127.0.0.1"),
    "for all names": ("-h",),
    "for another name": ("-h", "-n", "elsewhere"),
    "for the name with its port": ("-h", "-n", "{name}"),
    "for a pattern": ("-h", "-n", "127.*"),
    "expired": (*HOST, *PAST),
    "not yet valid": (*HOST, *FUTURE),
    "with a critical option": (*HOST, "-O", "critical:odd@example.com=1"),
    "with an extension": (*HOST, "-O", "extension:odd@example.com=1"),
}
AUTHORITIES = {
    "the authority": "@cert-authority {name} {ca}",
    "the authority for all": "@cert-authority * {ca}",
    "the authority without the port": "@cert-authority 127.0.0.1 {ca}",
    "the authority elsewhere": "@cert-authority elsewhere {ca}",
    "another authority": "@cert-authority * {old}",
    "another authority first": "@cert-authority * {old}\n@cert-authority * {ca}",
    "the authority is revoked": "@cert-authority * {ca}\n@revoked * {ca}",
    "the certified key is revoked": "@cert-authority * {ca}\n@revoked * {ed}",
    "the authority is revoked, the key known": "@revoked * {ca}\n{name} {ed}",
    "the authority is a plain key": "{name} {ca}",
    "the plain key": "{name} {ed}",
    "another authority, the plain key": "@cert-authority * {old}\n{name} {ed}",
    "the authority, another plain key": "@cert-authority * {ca}\n{name} {old}",
    "the authority without the port, another key with it": "@cert-authority 127.0.0.1 {ca}\n"
    "{name} {old}",
    "the authority without the port, another with it": "@cert-authority 127.0.0.1 {ca}\n"
    "@cert-authority {name} {old}",
    "nothing": "",
}
CASES = [
    *((name, "the authority") for name in CERTIFIED),
    *((name, "another authority, the plain key") for name in ("expired", "for another name")),
    *(("good", name) for name in AUTHORITIES),
]


def with_certificate(folder, options, kind="ed25519", authority="ca"):
    def prepare(server):
        words = [word.format(name=server.name) for word in options]
        certify(server.folder, "host_ed25519.pub", *words, kind=kind, authority=authority)
        return [f"HostCertificate {server.folder}/host_ed25519-cert.pub"]

    return sshd(folder, prepare=prepare)


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """Gives the sshd that shows such a certificate; each is started once."""
    with ExitStack() as running:
        folder = tmp_path_factory.mktemp("certified")

        @cache
        def start(name):
            server = with_certificate(folder / name.replace(" ", "-"), CERTIFIED[name])
            return running.enter_context(server)

        yield start


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=" - ".join)
def test_a_host_certificate_means_what_it_means_to_ssh(certified, case):
    ours, theirs = both(certified(case[0]), AUTHORITIES[case[1]])
    assert ours == theirs, f"ssh: {theirs}, labkit: {ours}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [("ed25519", ()), ("ecdsa", ()), ("rsa", ("-t", "rsa-sha2-256")), ("rsa", ("-t", "ssh-rsa"))],
    ids=["ed25519", "ecdsa", "rsa-sha2", "rsa-sha1"],
)
def test_the_signature_of_an_authority_counts_as_it_does_for_ssh(tmp_path, kind, options):
    with with_certificate(tmp_path / "s", (*HOST, *options), kind) as server:
        ours, theirs = both(server, AUTHORITIES["the authority"])
    assert ours == theirs == ("ssh-rsa" not in options)


def random_line(random, server, words):
    name = server.name
    names = [
        name, name.upper(), "127.0.0.1", "127.?.0.1", "*", "[*]:*", f"[127.*]:{server.port}",
        f"!{name}", "!127.0.0.1", "!*", f"*,!{name}", "other", "!other", "", "[127.0.0.1]:22",
        words["hash"], words["barehash"], words["shorthash"],
    ]  # fmt: skip
    keys = [words[key] for key in ("ed", "ed", "ed", "ca", "ca", "old", "cut", "dsa", "misnamed")]
    markers = ["", "", "", "@revoked ", "@revoked\t", "@cert-authority ", "@bad ", "@revoked @bad "]
    return "".join([
        random.choice(["", "", "", " ", "\t", "#", "\f"]), random.choice(markers),
        ",".join(random.choices(names, k=random.choice([1, 1, 2, 3]))),
        random.choice([" ", " ", "  ", "\t"]), random.choice([*keys, "ssh-ed25519", ""]),
        random.choice(["", " comment", " # x", "\r", " \t", "\0z"]),
    ])  # fmt: skip


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with sshd(tmp_path_factory.mktemp("plain"), kinds=("ed25519", "rsa")) as server:
        yield server


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(10))
def test_any_known_hosts_file_means_what_it_means_to_ssh(plain, certified, tmp_path, seed):
    random = Random(seed)
    servers = [plain, certified("good"), certified("expired")]
    known_words = {server: words(server) for server in servers}

    def random_file(number):
        server = random.choice(servers)
        lines = [random_line(random, server, known_words[server]) for _ in range(4)]
        file = tmp_path / f"asked-{number}"
        file.write_text("\n".join(lines[: random.randrange(1, 5)]), "utf-8", newline="")
        return server, file

    def both_accept(asked):
        return labkit_accepts(*asked), ssh_accepts(*asked)

    asked = [random_file(number) for number in range(100)]
    with ThreadPoolExecutor(4) as pool:
        for (_, file), (ours, theirs) in zip(asked, pool.map(both_accept, asked), strict=True):
            assert ours == theirs, f"ssh: {theirs}, labkit: {ours}, by {file.read_bytes()!r}"


def test_a_certificate_that_its_authority_did_not_sign_is_refused(tmp_path):
    key(tmp_path, "host")
    certify(tmp_path, "host.pub", *HOST)
    blob = base64.b64decode((tmp_path / "host-cert.pub").read_text().split()[1])
    assert HostCertificate.read(blob).is_signed()
    text = f"@cert-authority * {key(tmp_path, 'ca')}\n* {key(tmp_path, 'host')}"
    reading(text).verify("box1", Name("127.0.0.1"), blob)
    forged = blob[:-1] + bytes([blob[-1] ^ 1])
    with pytest.raises(HostKeyRefused, match="broken key"):
        reading(text).verify("box1", Name("127.0.0.1"), forged)


@pytest.mark.slow
def test_a_certificate_lets_in_who_holds_it_and_nobody_else(tmp_path):
    file = tmp_path / "known"
    file.write_text(f"@cert-authority * {key(tmp_path, 'ca')}\n")
    with (
        with_certificate(tmp_path / "good", HOST, authority="../ca") as server,
        closing(connection.reached(server.target(file))) as client,
    ):
        assert client.host_key_type == "ssh-ed25519-cert-v01@openssh.com"
    with with_certificate(tmp_path / "bad", (*HOST, *PAST), authority="../ca") as server:
        with pytest.raises(HostKeyRefused, match="is not known") as why:
            connection.reached(server.target(file))
        assert "it has expired" in str(why.value)
