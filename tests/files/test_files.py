"""Files to hosts and back, over a real sshd and without one."""

import contextlib
import os
import subprocess
import threading
from pathlib import Path

import pytest
from copies import MIB, left_in
from poor import busybox, only, poor, system

from labkit.errors import BadInput, CopyFailed, HostError

PROGRAMS = ("mount", "truncate", "umount")

NAMES = ["plain", "two words", "new\nline", "-dash", "é漢", "'q\"$`\\", "x" * 255, "\udcff\udc80"]


# --- one file -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, MIB, 3 * MIB + 12345])
def test_what_arrives_is_what_was_sent_and_nothing_is_left_beside_it(host, tmp_path, size):
    content = os.urandom(size)
    host.put(content, str(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == content
    assert host.get(str(tmp_path / "file")) == content
    assert left_in(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(NAMES)))
def test_a_file_may_have_any_name(host, tmp_path, number):
    path = f"{tmp_path}/{NAMES[number]}"
    host.put(b"content", path)
    assert Path(path).read_bytes() == b"content"
    assert host.get(path) == b"content"


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o444])
def test_the_mode_of_a_local_file_goes_with_it(host, tmp_path, mode):
    source = tmp_path / "source"
    source.write_bytes(os.urandom(MIB + 1))
    source.chmod(mode)
    host.put(source, str(tmp_path / "there"))
    assert (tmp_path / "there").read_bytes() == source.read_bytes()
    assert (tmp_path / "there").stat().st_mode & 0o777 == mode


@pytest.mark.slow
def test_a_file_of_the_kernel_is_read_although_it_has_no_size(host):
    assert host.get("/proc/version") == Path("/proc/version").read_bytes()


def test_an_existing_file_is_replaced_whole(host, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old" * MIB)
    host.put(b"new", str(path), mode=0o640)
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == 0o640


@pytest.mark.slow
def test_a_reader_sees_the_old_file_or_the_new_one_and_nothing_between(host, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a" * MIB)
    seen, done = set(), threading.Event()

    def look():
        while not done.is_set():
            content = path.read_bytes()
            seen.add((content[:1], len(content), content[-1:]))

    looker = threading.Thread(target=look)
    looker.start()
    for letter in (b"b", b"c", b"d"):
        host.put(letter * MIB, str(path))
    done.set()
    looker.join()
    assert seen <= {(c, MIB, c) for c in (b"a", b"b", b"c", b"d")}


# --- what is refused, and leaves everything as it was ---------------------------------------


def refusals(host, path):
    with pytest.raises((CopyFailed, BadInput)) as error:
        host.put(b"new", str(path))
    return str(error.value)


def test_a_link_is_not_followed(host, tmp_path):
    (tmp_path / "kept").write_bytes(b"kept")
    (tmp_path / "link").symlink_to("kept")
    assert "links are not followed" in refusals(host, tmp_path / "link")
    assert (tmp_path / "kept").read_bytes() == b"kept" and (tmp_path / "link").is_symlink()
    assert left_in(tmp_path) == []
    with pytest.raises(CopyFailed, match="links are not followed"):
        host.get(str(tmp_path / "link"))
    assert host.get(str(tmp_path / "link"), follow=True) == b"kept"


@pytest.mark.parametrize("kind", ["folder", "fifo", "no folder", "no name"])
def test_a_place_that_cannot_be_a_file_is_refused(host, tmp_path, kind):
    if kind == "folder":
        (tmp_path / "target").mkdir()
    if kind == "fifo":
        os.mkfifo(tmp_path / "target")
    path = {"no folder": "target/none/file", "no name": "target/.."}.get(kind, "target")
    assert "hint" in (said := refusals(host, tmp_path / path)) or "cannot write" in said
    assert left_in(tmp_path) == []


@pytest.fixture
def disk(tmp_path):
    """A small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=16m,nr_inodes=12", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("mounting needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)  # a command may be about to end


def test_what_does_not_fit_is_refused_before_anything_changes(host, disk):
    (disk / "filler").write_bytes(bytes(16 * MIB - 256 * 1024))
    (disk / "file").write_bytes(b"old")
    with pytest.raises(CopyFailed, match="KiB are free"):
        host.put(os.urandom(MIB), str(disk / "file"))
    assert sorted(os.listdir(disk)) == ["file", "filler"]
    assert (disk / "file").read_bytes() == b"old"


def test_a_disk_without_room_for_another_name_is_said_to_be_full(host, disk):
    for number in range(11):
        (disk / str(number)).touch()
    with pytest.raises(CopyFailed, match="No space left"):
        host.put(os.urandom(MIB), str(disk / "file"))
    assert len(os.listdir(disk)) == 11


@pytest.mark.slow
def test_a_disk_that_fills_up_on_the_way_is_told_and_nothing_is_left(host, disk, tmp_path):
    (tmp_path / "source").write_bytes(os.urandom(14 * MIB))
    ended = threading.Event()

    def fill():
        while not any((disk / name).stat().st_size for name in left_in(disk)):
            if ended.wait(0.001):
                return
        with contextlib.suppress(OSError):
            (disk / "filler").write_bytes(bytes(16 * MIB))

    filler = threading.Thread(target=fill)
    filler.start()
    with pytest.raises(CopyFailed, match="No space left on device"):
        host.put(tmp_path / "source", str(disk / "file"))
    ended.set()
    filler.join()
    assert os.listdir(disk) == ["filler"]


def test_a_file_system_that_is_read_only_is_said_to_be(host, disk):
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    assert "read-only" in refusals(host, disk / "file")


def test_what_is_no_file_to_read_is_named(host, tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "absent/file", tmp_path / "folder"):
        with pytest.raises(HostError, match=f"cannot read {path}"):
            host.get(str(path))
    assert [entry.name for entry in tmp_path.rglob("*")] == ["folder"]


def test_a_file_that_may_not_be_read_is_named(host, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = tmp_path / "secret"
    path.write_bytes(b"-")
    path.chmod(0)
    with pytest.raises(CopyFailed, match=r"secret[\s\S]*permission"):
        host.get(str(path))


def test_what_has_no_bytes_of_its_own_is_not_sent_and_no_name_of_half_a_letter_is_looked_for(
    host, tmp_path
):
    for content, path in [("text", "file"), (b"bytes", "\ud800")]:
        with pytest.raises(BadInput):
            host.put(content, str(tmp_path / path))
    with pytest.raises(BadInput, match="names no file"):
        host.get(str(tmp_path / "\ud800"))
    assert os.listdir(tmp_path) == []


def test_a_folder_or_a_pipe_is_not_sent_and_named(host, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for source in (tmp_path, tmp_path / "pipe", tmp_path / "absent"):
        with pytest.raises(BadInput, match=str(source)):
            host.put(source, str(tmp_path / "there"))
    assert not (tmp_path / "there").exists()


@pytest.mark.slow
def test_a_file_that_changes_while_it_is_sent_is_refused(host, tmp_path):
    source, ended = tmp_path / "source", threading.Event()
    source.write_bytes(os.urandom(40 * MIB))

    def change():
        while not ended.wait(0.001):
            with source.open("r+b") as file:
                file.seek(39 * MIB)
                file.write(os.urandom(8))

    changer = threading.Thread(target=change)
    changer.start()
    with pytest.raises(CopyFailed, match=r"damaged[\s\S]*did it change"):
        host.put(source, str(tmp_path / "there"))
    ended.set()
    changer.join()
    assert not (tmp_path / "there").exists() and left_in(tmp_path) == []


# --- hosts with less, and hosts that lie ------------------------------------------------------


@pytest.mark.slow
def test_a_host_that_can_check_no_copy_is_refused_and_nothing_is_left(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    with only(tmp_path, system("sha256sum")) as host:
        with pytest.raises(CopyFailed, match="neither openssl nor sha256sum"):
            host.put(b"new", f"{tmp_path}/old")
        with pytest.raises(CopyFailed, match="neither openssl nor sha256sum"):
            host.get(f"{tmp_path}/old")
    assert (tmp_path / "old").read_bytes() == b"old" and left_in(tmp_path) == []


@pytest.mark.slow
def test_a_host_of_busybox_alone_is_copied_to_and_from(tmp_path):
    content = os.urandom(2 * MIB)
    with only(tmp_path, busybox()) as host:
        host.put(content, f"{tmp_path}/there")
        assert host.get(f"{tmp_path}/there") == content
    assert left_in(tmp_path) == []


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
    folder = tmp_path_factory.mktemp("liar")
    (folder / "bin").mkdir()
    (folder / "bin" / "sh").write_text(LIAR.format(folder / "says"))
    (folder / "bin" / "sh").chmod(0o755)
    with poor(folder) as host:
        yield folder, host


@pytest.mark.slow
@pytest.mark.parametrize(
    "says", ["", "x", "sha256\n" * 9, "99 1 1 81a4\n", "sha256\n9 1 1 81a4\nx"]
)
def test_a_lying_host_gives_no_file_that_was_not_checked(liar, says):
    folder, host = liar
    (folder / "says").write_text(says)
    with pytest.raises(HostError):
        host.get("/anything")


@pytest.mark.slow
def test_a_host_that_sends_without_end_is_stopped(liar):
    folder, host = liar
    subprocess.run(["truncate", "-s", "4G", folder / "says"], check=True)
    with pytest.raises(CopyFailed, match="more than 1048576 bytes"):
        host.get("/anything", most=MIB)
    (folder / "says").unlink()
