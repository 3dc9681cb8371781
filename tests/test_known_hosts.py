"""Which host keys are taken for known: what ssh itself says, case by case, against real sshds."""

import base64
import re
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sshd import keygen, known, reached
from sshds import certify, key, ssh_accepts, sshd

from labkit.errors import HostKeyRefused
from labkit.transports import certificates, connection
from labkit.transports.certificates import HostCertificate
from labkit.transports.known_hosts import KnownHosts, Name, Status

PACKAGE = Path(__file__).parents[1] / "labkit"


def refused(at):
    with reached(at) as host, pytest.raises(HostKeyRefused) as why:
        host.run("true")
    return str(why.value)


def with_known(server, path, text):
    path.write_text(text)
    return server.address(known_hosts=(str(path),))


def public(server, kind="ed25519"):
    return (server.folder / f"host_{kind}.pub").read_text()


def printed(path):
    listed = subprocess.run(["ssh-keygen", "-lf", path], capture_output=True, text=True)
    return re.search(r"SHA256:\S+", listed.stdout)[0]


# --- what is said ---------------------------------------------------------------------------


def test_an_unknown_host_is_refused_and_its_fingerprint_shown(server, tmp_path):
    said = refused(with_known(server, tmp_path / "known", ""))
    assert "is not known" in said
    assert printed(server.folder / "host_ed25519.pub") in said
    assert f"-o UserKnownHostsFile={tmp_path}/known -p {server.port} 127.0.0.1" in said
    refused(server.address(known_hosts=()))
    refused(server.address(known_hosts=(str(tmp_path / "absent"),)))


def test_a_host_of_a_lab_is_made_known_by_the_command_that_the_message_names(server, tmp_path):
    said = refused(server.address(known_hosts=(), lab="a lab.toml"))
    assert "labkit trust box1 --lab 'a lab.toml'" in said


def test_a_changed_key_is_refused_with_both_fingerprints_and_the_line_to_remove(server, tmp_path):
    other = keygen(tmp_path / "other")
    said = refused(with_known(server, tmp_path / "known", "# ours\n" + known(server.port, other)))
    assert "CHANGED" in said
    assert printed(tmp_path / "other.pub") in said
    assert printed(server.folder / "host_ed25519.pub") in said
    assert f"remove {tmp_path}/known:2" in said


def test_a_revoked_key_is_refused_also_when_it_is_known(server, tmp_path):
    line = known(server.port, public(server))
    said = refused(
        with_known(server, tmp_path / "known", f"{line}@revoked * {line.split(' ', 1)[1]}")
    )
    assert "is revoked" in said and f"{tmp_path}/known:2" in said


def test_a_line_that_is_passed_over_is_named(server, tmp_path):
    said = refused(with_known(server, tmp_path / "known", "# ours\n\nbox1 ssh-rsa AAAA\n"))
    assert f"{tmp_path}/known:3: " in said


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_a_host_is_asked_for_the_kind_of_key_that_we_know(server, tmp_path, kind):
    at = with_known(server, tmp_path / "known", known(server.port, public(server, kind)))
    with reached(at) as host:
        assert host.check("echo", "in") == "in\n"


def test_hashed_names_are_known_too(server, tmp_path):
    at = with_known(server, tmp_path / "known", known(server.port, public(server)))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", tmp_path / "known"], check=True)
    assert (tmp_path / "known").read_text().startswith("|1|")
    with reached(at) as host:
        host.check("true")


def test_each_new_connection_is_judged_anew(server, tmp_path):
    at = with_known(server, tmp_path / "known", known(server.port, public(server)))
    with reached(at) as host:
        host.check("true")
        (tmp_path / "known").write_text(known(server.port, keygen(tmp_path / "other")))
        host.check("true")
        host.close()
        with pytest.raises(HostKeyRefused, match="CHANGED"):
            host.run("true")


def test_nothing_in_labkit_takes_a_key_unseen_or_forwards_an_agent():
    loose = re.compile("AutoAddPolicy|WarningPolicy|SSHClient|request_forward_agent|AgentRequest")
    found = [path for path in PACKAGE.rglob("*.py") if loose.search(path.read_text("utf-8"))]
    assert found == []


# --- as ssh says ----------------------------------------------------------------------------

# {name} is [127.0.0.1]:port, {ed} and {rsa} are the host's keys, {old} is another's.
PLAIN = {
    "its name": "{name} {ed}",
    "nothing": "",
    "without the port": "127.0.0.1 {ed}",
    "another key without the port": "127.0.0.1 {old}",
    "another key with the port, its own without": "{name} {old}\n127.0.0.1 {ed}",
    "port 22": "[127.0.0.1]:22 {ed}",
    "another port": "[127.0.0.1]:1 {ed}",
    "another address": "[127.0.0.2]:{port} {ed}",
    "a star": "[127.0.0.*]:{port} {ed}",
    "a star alone": "* {ed}",
    "a question mark": "[127.0.0.?]:{port} {ed}",
    "a question mark too many": "[127.0.0.1?]:{port} {ed}",
    "brackets are no wildcard": "[1]27.0.0.1 {ed}",
    "several names": "elsewhere,{name},10.0.0.1 {ed}",
    "an empty name among several": "elsewhere,,{name} {ed}",
    "negated": "*,!{name} {ed}",
    "negated first": "!{name},* {ed}",
    "negated, but known without the port": "[*]:*,!{name} {ed}\n127.0.0.1 {ed}",
    "only negated": "!elsewhere {ed}",
    "negated by a pattern": "{name},!*.0.1* {ed}",
    "several keys, the last is right": "{name} {old}\n{name} {ed}",
    "several keys, the first is right": "{name} {ed}\n{name} {old}",
    "another key": "{name} {old}",
    "another kind is known, and right": "{name} {rsa}",
    "another kind is known, and wrong": "{name} {oldrsa}",
    "one kind is right, the other is wrong": "{name} {oldrsa}\n{name} {ed}",
    "revoked": "{name} {ed}\n@revoked {name} {ed}",
    "revoked before": "@revoked * {ed}\n{name} {ed}",
    "another key is revoked": "{name} {ed}\n@revoked * {old}",
    "revoked under another name": "{name} {ed}\n@revoked elsewhere {ed}",
    "revoked without the port": "{name} {ed}\n@revoked 127.0.0.1 {ed}",
    "revoked alone": "@revoked {name} {ed}",
    "revoked, the other kind is known": "@revoked * {ed}\n{name} {rsa}",
    "an authority that is the key itself": "@cert-authority {name} {ed}",
    "an unknown marker": "@wrong {name} {ed}\n",
    "an unknown marker, then a good line": "@wrong {name} {ed}\n{name} {ed}",
    "two markers": "@revoked @cert-authority {name} {ed}\n{name} {ed}",
    "a marker and a tab": "@revoked\t{name} {ed}\n{name} {ed}",
    "a marker and several blanks": "@revoked  \t {name} {ed}\n{name} {ed}",
    "bad base64, then a good line": "{name} ssh-ed25519 AAAA!\n{name} {ed}",
    "base64 cut short": "{name} {cut}",
    "another kind than the key is": "{name} {misnamed}",
    "the name of a signature": "{name} {signature}",
    "a comment": "# {name} {ed}",
    "a comment after the key": "{name} {ed} root@somewhere # here",
    "a comment within": "{name} # {ed}",
    "a line with blanks before it": " \t {name} {ed}",
    "blanks at the end": "{name} {ed} \t ",
    "blanks between": "{name} \t  {tabbed}",
    "CR and LF": "{name} {ed}\r\n",
    "CR and LF after a comment": "# ours\r\n{name} {ed} me\r\n",
    "CR alone": "# ours\r{name} {ed}",
    "a form feed before": "\f{name} {ed}",
    "a zero byte before": "\0{name} {ed}",
    "a zero byte after": "{name} {ed}\0 more",
    "bytes that are no text": "\udcff\udcfe {ed}\n{name} {ed}",
    "a line break missing at the end": "# ours\n{name} {ed}",
    "no key": "{name}\n{name} ssh-ed25519\n",
    "a key of the first protocol": "{name} 1024 35 1234567890",
    "DSA, then the plain name": "{name} {dsa}\n127.0.0.1 {ed}",
    "hashed": "{hash} {ed}",
    "hashed without the port": "{barehash} {ed}",
    "hashed and another": "{hash},elsewhere {ed}",
    "a hash of another kind": "|2|AAAA|AAAA {ed}\n{name} {ed}",
    "a hash cut short": "{shorthash} {ed}",
    "hashed and revoked": "{name} {ed}\n@revoked {hash} {ed}",
    "a very long name": "{long} {ed}",
    "a very long name first": "{long},{name} {ed}",
}  # fmt: skip


def dsa():
    parts = [b"ssh-dss", b"\0" + b"\x81" * 128, b"\0" + b"\x81" * 20, b"\x02", b"\x05"]
    return "ssh-dss " + base64.b64encode(b"".join(map(certificates.packed, parts))).decode()


def hashed(folder, name, public):
    (folder / "hashing").write_text(f"{name} {public}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", folder / "hashing"], capture_output=True)
    return (folder / "hashing").read_text().split()[0]


def words(server):
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
    file = server.folder / "asked"
    file.write_bytes(text.format(**words(server)).encode("utf-8", "surrogateescape"))
    return labkit_accepts(server, file), ssh_accepts(server, file)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with sshd(tmp_path_factory.mktemp("plain"), kinds=("ed25519", "rsa")) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("case", PLAIN)
def test_a_known_hosts_file_means_what_it_means_to_ssh(plain, case):
    ours, theirs = both(plain, PLAIN[case])
    assert ours == theirs, f"ssh: {theirs}, labkit: {ours}"


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


def test_a_certificate_lets_in_who_holds_it_and_nobody_else(tmp_path):
    file = tmp_path / "known"
    file.write_text(f"@cert-authority * {key(tmp_path, 'ca')}\n")
    with (
        with_certificate(tmp_path / "good", HOST, authority="../ca") as server,
        closing(connection.reached(server.target(file))) as client,
    ):
        assert connection.negotiated(client).host_key == "ssh-ed25519-cert-v01@openssh.com"
    with with_certificate(tmp_path / "bad", (*HOST, *PAST), authority="../ca") as server:
        with pytest.raises(HostKeyRefused, match="is not known") as why:
            connection.reached(server.target(file))
        assert "it has expired" in str(why.value)


def test_a_host_may_not_change_its_key_when_keys_are_exchanged_again(plain):
    with closing(connection.reached(plain.target())) as client:
        client.renegotiate_keys()
        assert client.is_active()
        client.shown = b"another"
        with pytest.raises(Exception, match="another key than before"):
            client.renegotiate_keys()


# --- fuzzing --------------------------------------------------------------------------------

TRUE = base64.b64encode(
    certificates.packed(b"ssh-ed25519") + certificates.packed(b"\x07" * 32)
).decode()
BLOB = base64.b64decode(TRUE)
FALSE = base64.b64encode(
    certificates.packed(b"ssh-ed25519") + certificates.packed(b"\x09" * 32)
).decode()
WORDS = [
    "@revoked", "@cert-authority", "@", "box1", "BOX1", "box*", "!box1", "?ox1", "*", ",", "!", "#",
    "[box1]:22", "[", "|1|", "|1|AAAA|AAAA", "ssh-ed25519", "rsa-sha2-512", "ssh-rsa", TRUE, FALSE,
    TRUE[:-4], TRUE + "AAAA", TRUE + "=", "\r", "\0", "\t", " ", "\n", "\v", "\x85", "\xff",
    f"box1 ssh-ed25519 {TRUE}", f"@revoked * ssh-ed25519 {TRUE}", f"* ssh-ed25519 {FALSE}", "",
]  # fmt: skip
# Each example is a seed of this many cases, for drawing them one by one takes a minute.
CASES_EACH = 100
FUZZ = settings(max_examples=1000, deadline=None, database=None)
SEEDS = st.integers(0, 2**64)


def a_file(random):
    words = [
        random.choice(WORDS) if random.random() < 0.9 else chr(random.randrange(0x300))
        for _ in range(random.randrange(14))
    ]
    return random.choice(["", " ", " ", "\n"]).join(words)


def reading(text):
    lines = text.encode("utf-8", "replace").decode("latin-1").split("\n")
    return KnownHosts((), tuple((None, n, one.split("\0")[0]) for n, one in enumerate(lines)))


@pytest.mark.slow
@FUZZ
@given(SEEDS)
def test_no_file_makes_known_what_it_does_not_hold(seed):
    random = Random(seed)
    seen = Counter(judged(a_file(random)) for _ in range(CASES_EACH))
    assert seen[Status.KNOWN] < CASES_EACH


def judged(text):
    read = reading(text)
    read.bad()
    read.algorithms(Name("box1"))
    found = read.judge(Name("box1"), BLOB, 0.0).status
    lines = [one.split("\0")[0] for one in text.split("\n")]
    if found is Status.KNOWN:
        # A line holds the whole key, under a name that may fit, and it is neither marked ...
        names = r"[ \t]*(?![@#])[^ \t]*(box|BOX|\*|\?)[^ \t]*[ \t]"
        assert any(re.match(f"{names}.*{TRUE}", one, re.DOTALL) for one in lines), text
        # ... nor is there one that plainly revokes it.
        assert f"@revoked * ssh-ed25519 {TRUE}" not in lines, text
    if f"box1 ssh-ed25519 {TRUE}" in lines and "@" not in text:
        assert found is Status.KNOWN, text
    return found


def certificate():
    parts = [b"ssh-ed25519-cert-v01@openssh.com", b"nonce", b"\x07" * 32]
    blob = b"".join(map(certificates.packed, parts)) + bytes(8) + b"\0\0\0\x02"
    blob += certificates.packed(b"id") + certificates.packed(certificates.packed(b"box1"))
    blob += bytes(8) + b"\xff" * 8 + certificates.packed(b"") * 3
    authority = certificates.packed(b"ssh-ed25519") + certificates.packed(b"\x09" * 32)
    signature = certificates.packed(b"ssh-ed25519") + certificates.packed(b"\x01" * 64)
    return blob + certificates.packed(authority) + certificates.packed(signature)


@pytest.mark.slow
@FUZZ
@given(SEEDS)
def test_no_bytes_are_taken_for_a_certificate_that_nobody_signed(seed):
    random = Random(seed)
    read = reading(f"@cert-authority * ssh-ed25519 {FALSE}")
    for _ in range(CASES_EACH // 10):
        blob = bytearray(certificate())
        for _ in range(random.randrange(5)):
            blob[random.randrange(len(blob))] = random.randrange(256)
        blob = bytes(blob[: random.choice([len(blob), random.randrange(len(blob))])])
        with pytest.raises(HostKeyRefused):
            read.verify("box1", Name("box1"), blob + bytes(random.choice([0, 0, 3])))


def test_reading_is_quick_however_a_pattern_is_made():
    hostile = ",".join(["*a" * 500 + "b"] * 20)
    begun = time.process_time()
    reading("\n".join([f"{hostile} ssh-ed25519 {TRUE}"] * 20)).judge(Name("a" * 200), BLOB, 0.0)
    assert time.process_time() - begun < 5
