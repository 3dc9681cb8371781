"""Folders to hosts and back: odd names, hosts with BusyBox alone, and hosts that lie."""

import os
import stat
import subprocess

import pytest
from copies import MIB, left_in
from poor import busybox, only, poor, system
from sshd import SSHD, known, reached
from wire import Cut

from labkit.errors import BadInput, CopyFailed, HostError, Unreachable
from labkit.host import Host
from labkit.transports.local import Local

PROGRAMS = ("ssh", "tar")

NAMES = [
    "plain",
    "two words",
    "new\nline",
    "-dash",
    "é漢",
    "'q\"$`\\",
    "x" * 255,
    "\udcff\udc80",
    "a*b",
]


@pytest.fixture(params=["ssh", "local", "busybox"], scope="module")
def host(request, tmp_path_factory):
    if request.param == "local":
        yield Host("here", "127.0.0.1", Local())
        return
    if request.param == "ssh":
        with reached(request.getfixturevalue("server").address()) as found:
            yield found
        return
    with only(tmp_path_factory.mktemp("busybox"), busybox()) as found:
        yield found


def planted(folder):
    """A tree of all sorts, and what it is to look like."""
    for deep in ("", "sub", "sub/sub", "two words"):
        (folder / deep).mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(NAMES):
            (folder / deep / f"{name[:250]}{number}").write_bytes(os.urandom(100 * number))
    (folder / "empty").mkdir(mode=0o750)
    (folder / "no writing").mkdir()
    (folder / "no writing" / "file").write_bytes(b"-")
    (folder / "no writing").chmod(0o555)
    (folder / "program").write_bytes(b"#!/bin/sh\n")
    (folder / "program").chmod(0o755)
    (folder / "large").write_bytes(os.urandom(9 * MIB + 7))
    with (folder / "sparse").open("wb") as file:
        file.truncate(10 * MIB)
    return folder


def shape(folder):
    """Everything that a copy has to keep."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        content = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (stat.S_IMODE(path.stat().st_mode), content)
    return found


@pytest.mark.slow
def test_a_tree_arrives_as_it_was_and_comes_back_as_it_was(host, tmp_path):
    source = planted(tmp_path / "source")
    told = []
    copied = host.put_tree(source, f"{tmp_path}/there", tell=told.append)
    assert shape(tmp_path / "there") == shape(source)
    fetched = host.get_tree(f"{tmp_path}/there", tmp_path / "back", tell=told.append)
    assert shape(tmp_path / "back") == shape(source)
    assert copied.files == fetched.files == 40 and copied.size == fetched.size > 19 * MIB
    assert [moved.share for moved in told if moved.done == moved.of]
    assert left_in(tmp_path) == []


@pytest.mark.slow
def test_a_tree_that_is_there_is_replaced_only_when_asked(host, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_bytes(b"-")
    for copy in (
        lambda **more: host.put_tree(tmp_path / "one", f"{tmp_path}/two", **more),
        lambda **more: host.get_tree(f"{tmp_path}/two", tmp_path / "one", **more),
    ):
        with pytest.raises((BadInput, CopyFailed), match="there already"):
            copy()
        assert [os.listdir(tmp_path / name) for name in ("one", "two")] in (
            [["one"], ["two"]], [["one"], ["one"]],
        )  # fmt: skip
        copy(replace=True)
    assert os.listdir(tmp_path / "two") == ["one"] == os.listdir(tmp_path / "one")
    assert left_in(tmp_path) == []


def test_links_and_pipes_are_refused_by_name_or_left_out(host, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_bytes(b"-")
    (source / "link").symlink_to("/etc")
    os.mkfifo(source / "pipe")
    for copy in (
        lambda **more: host.put_tree(source, f"{tmp_path}/there", **more),
        lambda **more: host.get_tree(str(source), tmp_path / "back", **more),
    ):
        with pytest.raises(BadInput, match=r"\./link, \./pipe"):
            copy()
        assert sorted(copy(skip_others=True).left_out) == ["./link", "./pipe"]
    assert os.listdir(tmp_path / "there") == ["file"] == os.listdir(tmp_path / "back")
    assert left_in(tmp_path) == []


def test_a_link_in_the_place_of_a_tree_is_not_followed(host, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to("kept")
    with pytest.raises(CopyFailed, match="links are not followed"):
        host.put_tree(tmp_path / "source", f"{tmp_path}/link", replace=True)
    with pytest.raises(BadInput, match="links are not followed"):
        host.get_tree(f"{tmp_path}/source", tmp_path / "link", replace=True)
    with pytest.raises(CopyFailed, match="links are not followed"):
        host.get_tree(f"{tmp_path}/link", tmp_path / "back")
    assert os.listdir(tmp_path / "kept") == []


def test_more_than_is_allowed_is_refused_with_nothing_written(host, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for number in range(20):
        (source / str(number)).write_bytes(bytes(100))
    with pytest.raises(CopyFailed, match="more than 20 files"):
        host.get_tree(str(source), tmp_path / "back", most_files=20)
    with pytest.raises(CopyFailed, match="holds 2000 bytes, more than 1999"):
        host.get_tree(str(source), tmp_path / "back", most_bytes=1999)
    assert os.listdir(tmp_path) == ["source"]


def test_what_a_plain_user_may_not_read_is_named(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "secret").touch(mode=0)
    here = Host("here", "127.0.0.1", Local())
    for copy in (
        lambda: here.put_tree(tmp_path / "source", f"{tmp_path}/there"),
        lambda: here.get_tree(f"{tmp_path}/source", tmp_path / "back"),
    ):
        with pytest.raises(CopyFailed, match="secret"):
            copy()


# --- hosts with less ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("lacking", ["tar", "sha256sum"])
def test_a_host_without_tar_or_sha256_is_copied_to_all_the_same(tmp_path, lacking):
    source = planted(tmp_path / "source")
    with only(tmp_path, system(lacking)) as host:
        copied = host.put_tree(source, f"{tmp_path}/there")
        fetched = host.get_tree(f"{tmp_path}/there", tmp_path / "back")
        one = host.put(source / "large", f"{tmp_path}/large")
        assert host.get(f"{tmp_path}/large") == (source / "large").read_bytes()
    assert shape(tmp_path / "there") == shape(source) == shape(tmp_path / "back")
    kind = "cksum" if lacking == "sha256sum" else "sha256"
    assert {copied.verified_by, fetched.verified_by, one.verified_by} == {kind}


# --- the connection is cut ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("after", [100_000, 8_000_000, 19_500_000])
def test_a_tree_that_was_cut_goes_on_from_what_is_there(server, tmp_path, way, after):
    source = planted(tmp_path / "source")
    for number in range(12):
        (source / f"middle{number}").write_bytes(os.urandom(MIB))

    def copy(host):
        if way == "up":
            return host.put_tree(source, f"{tmp_path}/there")
        return host.get_tree(str(source), tmp_path / "there")

    with (
        Cut(server.port, [after, *[5000] * 9]) as relay,
        through(server, relay) as host,
        pytest.raises(Unreachable, match="copy it again"),
    ):
        copy(host)
    assert not (tmp_path / "there").exists()
    with Cut(server.port, [after]) as relay, through(server, relay) as host:
        copied = copy(host)
    assert relay.cuts or copied.sent < copied.size
    assert shape(tmp_path / "there") == shape(source)
    assert left_in(tmp_path) == []


def through(server, relay):
    public = (server.folder / "host_ed25519.pub").read_text()
    file = server.folder / f"known_{relay.port}"
    file.write_text(known(relay.port, public))
    return reached(server.address(port=relay.port, known_hosts=(str(file),)))


# --- a host that lies -----------------------------------------------------------------------
# A real sshd whose commands are an attacker's: every `sh` prints what the case says.

FILE, FOLDER, LINK, DEVICE = "81a4 5 1", "41ed 0 1", "a1ff 5 1", "61a4 5 1"


def list_of(*pairs):
    names = "".join(f"{name}\0" for name, _ in pairs)
    return "sha256\0" + names + "\0" + "".join(f"{row}\n" for _, row in pairs) + "\0"


LISTS = {
    "above": list_of((".", FOLDER), ("./../x", FILE)),
    "far above": list_of((".", FOLDER), ("./a/../../x", FILE)),
    "absolute": list_of((".", FOLDER), ("/tmp/x", FILE)),
    "no such folder": list_of((".", FOLDER), ("./a/x", FILE)),
    "in a file": list_of((".", FOLDER), ("./a", FILE), ("./a/x", FILE)),
    "in a link": list_of((".", FOLDER), ("./a", LINK), ("./a/x", FILE)),
    "twice": list_of((".", FOLDER), ("./a", FILE), ("./a", FILE)),
    "the root above": list_of(("..", FOLDER), ("../x", FILE)),
    "a name of dots": list_of((".", FOLDER), ("./.", FILE)),
    "an empty name": list_of((".", FOLDER), ("./", FILE)),
    "a long name": list_of((".", FOLDER), ("./" + "x" * 5000, FILE)),
    "a device": list_of((".", FOLDER), ("./a", DEVICE)),
    "too few facts": "sha256\0.\0./a\0\0" + FOLDER + "\n\0",
    "no number": list_of((".", FOLDER), ("./a", "81a4 1e9 1")),
    "negative": list_of((".", FOLDER), ("./a", "81a4 -5 1")),
    "larger than said to be allowed": list_of((".", FOLDER), ("./a", "81a4 999999999999999999 1")),
    "no end": "sha256\0.\0./a",
    "one endless name": "sha256\0" + "x" * (6 * MIB),
    "nothing": "",
    "a name too long for a file system": list_of((".", FOLDER), ("./" + "x" * 300, FILE)),
}


# It knows how a command is to begin and to end, and says so.
LIAR = """\
#!/bin/bash
asked=$*
[[ $asked =~ labkit-ended-[0-9a-f]+ ]] && echo "$BASH_REMATCH" && echo "$BASH_REMATCH" >&2
/bin/cat {}
[[ $asked =~ labkit-ended-[0-9a-f]+ ]] && echo "$BASH_REMATCH 0" >&2
exit 0
"""


@pytest.fixture(scope="module")
def liar(tmp_path_factory):
    """A host that prints the file `says` whatever it is asked, and what it said to follow."""
    if not SSHD:
        pytest.skip("no sshd; to get it: make system")
    folder = tmp_path_factory.mktemp("liar")
    (folder / "bin").mkdir()
    (folder / "bin" / "sh").write_text(LIAR.format(folder / "says"))
    (folder / "bin" / "sh").chmod(0o755)
    with poor(folder) as host:
        yield folder, host


@pytest.mark.parametrize("case", LISTS)
def test_a_lying_host_writes_nothing_outside_and_is_refused(liar, tmp_path, case):
    folder, host = liar
    (folder / "says").write_bytes(LISTS[case].encode())
    (tmp_path / "inner").mkdir()
    with pytest.raises((CopyFailed, BadInput)):
        host.get_tree("/anything", tmp_path / "inner" / "back")
    assert os.listdir(tmp_path) == ["inner"]
    assert os.listdir(tmp_path / "inner") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "says", ["", "x", "sha256\n" * 9, "99 1 1 81a4\n", "sha256\n9 1 1 81a4\nx"]
)
def test_a_lying_host_gives_no_file_that_was_not_checked(liar, tmp_path, says):
    folder, host = liar
    (folder / "says").write_text(says)
    with pytest.raises(HostError):
        host.get_file("/anything", tmp_path / "file")
    with pytest.raises(HostError):
        host.get("/anything")
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_host_that_lists_a_million_names_is_stopped_at_what_is_allowed(liar, tmp_path):
    folder, host = liar
    rows = [(".", FOLDER), *((f"./{number}", FILE) for number in range(1_000_000))]
    (folder / "says").write_text(list_of(*rows))
    with pytest.raises(CopyFailed, match="more than 100000 files"):
        host.get_tree("/anything", tmp_path / "back")
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_host_that_sends_without_end_is_stopped(liar, tmp_path):
    folder, host = liar
    subprocess.run(["truncate", "-s", "4G", folder / "says"], check=True)
    with pytest.raises(CopyFailed, match="more than 1048576 bytes"):
        host.get("/anything", most=MIB)
    (folder / "says").unlink()
