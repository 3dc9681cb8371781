"""Files to hosts and back, over a real sshd and without one."""

import contextlib
import io
import os
import subprocess
import threading
from pathlib import Path

import pytest
from copies import MIB, left_in, noise

from labkit.errors import BadInput, CopyFailed, HostError
from labkit.files.blocks import Blocks, Cksum
from labkit.pages import lab_panel
from labkit.pages.terminal import ProgressLine

PROGRAMS = ("mount", "umount")

NAMES = ["plain", "two words", "new\nline", "-dash", "é漢", "'q\"$`\\", "x" * 255, "\udcff\udc80"]


# --- one file -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, MIB, MIB + 1, 3 * MIB, 2 * MIB + 12345])
def test_what_arrives_is_what_was_sent_and_nothing_is_left_beside_it(host, tmp_path, size):
    content = noise(size)
    copied = host.put(content, str(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == content
    assert (copied.size, copied.sent, copied.verified_by) == (size, size, "sha256")
    assert host.get(str(tmp_path / "file")) == content
    fetched = host.get_file(str(tmp_path / "file"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content
    assert (fetched.size, fetched.sent) == (size, size)
    assert left_in(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(NAMES)))
def test_a_file_may_have_any_name(host, tmp_path, number):
    path = f"{tmp_path}/{NAMES[number]}"
    host.put(b"content", path, beneath=str(tmp_path))
    assert Path(path).read_bytes() == b"content"
    assert host.get(path) == b"content"


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o444])
@pytest.mark.parametrize("size", [10, MIB + 1])
def test_the_mode_of_a_local_file_goes_with_it_both_ways(host, tmp_path, mode, size):
    source = tmp_path / "source"
    source.write_bytes(noise(size))
    source.chmod(mode)
    host.put(source, str(tmp_path / "there"))
    host.get_file(str(tmp_path / "there"), tmp_path / "back")
    assert [(tmp_path / n).stat().st_mode & 0o777 for n in ("there", "back")] == [mode, mode]


@pytest.mark.slow
def test_a_file_of_the_kernel_is_read_although_it_has_no_size(host, tmp_path):
    assert host.get("/proc/version") == Path("/proc/version").read_bytes()
    host.get_file("/proc/version", tmp_path / "version")
    assert (tmp_path / "version").read_bytes() == Path("/proc/version").read_bytes()


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


@pytest.mark.slow
def test_progress_is_told_and_ends_at_all_of_it(host, tmp_path):
    told = []
    host.put(noise(3 * MIB), str(tmp_path / "file"), tell=told.append)
    host.get_file(str(tmp_path / "file"), tmp_path / "back", tell=told.append)
    assert [moved.share for moved in told if moved.done == moved.of] == [1.0, 1.0]
    assert all(0 <= moved.share <= 1 for moved in told)


@pytest.mark.slow
def test_progress_is_drawn_in_a_terminal_and_in_a_notebook(host, tmp_path, monkeypatch):
    terminal = io.StringIO()
    with ProgressLine(terminal) as line:
        host.put(noise(3 * MIB), str(tmp_path / "file"), tell=line.copied)
    assert terminal.getvalue() == f"[{'#' * 24}] 3.1 of 3.1 MB: {tmp_path}/file\n"
    shown = []
    monkeypatch.setattr(lab_panel, "alone", lambda: False)
    monkeypatch.setattr(lab_panel, "show", shown.append)
    with lab_panel.copying() as tell:
        host.get_file(str(tmp_path / "file"), tmp_path / "back", tell=tell)
    assert (shown[0].value, shown[0].description) == (1.0, "3 of 3 MB")


# --- what is refused, and leaves everything as it was ---------------------------------------


def refusals(host, path, big):
    content = noise(2 * MIB) if big else b"new"
    with pytest.raises((CopyFailed, BadInput)) as refused:
        host.put(content, str(path))
    return str(refused.value)


@pytest.mark.parametrize("big", [False, True])
def test_a_link_is_not_followed(host, tmp_path, big):
    (tmp_path / "kept").write_bytes(b"kept")
    (tmp_path / "link").symlink_to("kept")
    assert "links are not followed" in refusals(host, tmp_path / "link", big)
    assert (tmp_path / "kept").read_bytes() == b"kept" and (tmp_path / "link").is_symlink()
    assert left_in(tmp_path) == []
    for read in (host.get, lambda path: host.get_file(path, tmp_path / "back")):
        with pytest.raises(CopyFailed, match="links are not followed"):
            read(str(tmp_path / "link"))
    assert host.get(str(tmp_path / "link"), follow=True) == b"kept"


@pytest.mark.parametrize("big", [False, True])
def test_a_link_among_the_folders_below_the_given_one_is_not_followed(host, tmp_path, big):
    (tmp_path / "root" / "a").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "a" / "link").symlink_to(tmp_path / "outside")
    content = noise(2 * MIB) if big else b"new"
    with pytest.raises(CopyFailed, match="is a link"):
        host.put(content, f"{tmp_path}/root/a/link/file", beneath=f"{tmp_path}/root")
    assert list((tmp_path / "outside").iterdir()) == []
    host.put(content, f"{tmp_path}/root/a/file", beneath=f"{tmp_path}/root")
    with pytest.raises(BadInput, match="is not below"):
        host.put(content, f"{tmp_path}/root/../file", beneath=f"{tmp_path}/root")


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("kind", ["folder", "fifo", "no folder", "no name"])
def test_a_place_that_cannot_be_a_file_is_refused(host, tmp_path, kind, big):
    if kind == "folder":
        (tmp_path / "target").mkdir()
    if kind == "fifo":
        os.mkfifo(tmp_path / "target")
    path = {"no folder": "target/none/file", "no name": "target/.."}.get(kind, "target")
    assert "hint" in (said := refusals(host, tmp_path / path, big)) or "cannot write" in said
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


@pytest.mark.parametrize("size", [MIB, 8 * MIB])
def test_what_does_not_fit_is_refused_before_anything_changes(host, disk, size):
    (disk / "filler").write_bytes(bytes(16 * MIB - 256 * 1024))
    (disk / "file").write_bytes(b"old")
    with pytest.raises(CopyFailed, match="KiB are free"):
        host.put(noise(size), str(disk / "file"))
    with pytest.raises(CopyFailed, match="are free"):
        host.get_file(str(disk / "filler"), disk / "back")
    assert sorted(os.listdir(disk)) == ["file", "filler"]
    assert (disk / "file").read_bytes() == b"old"


@pytest.mark.parametrize("size", [MIB, 8 * MIB])
def test_a_disk_without_room_for_another_name_is_said_to_be_full(host, disk, size):
    for number in range(11):
        (disk / str(number)).touch()
    with pytest.raises(CopyFailed, match="No space left"):
        host.put(noise(size), str(disk / "file"))
    assert len(os.listdir(disk)) == 11


@pytest.mark.slow
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_disk_that_fills_up_on_the_way_is_told_and_nothing_is_left(host, disk, tmp_path, way):
    (tmp_path / "source").write_bytes(noise(14 * MIB))

    def fill(_):
        if not (disk / "filler").exists():
            with contextlib.suppress(OSError):
                (disk / "filler").write_bytes(bytes(16 * MIB))

    with pytest.raises(CopyFailed, match="No space left on device"):
        if way == "up":
            host.put(tmp_path / "source", str(disk / "file"), tell=fill)
        else:
            host.get_file(str(tmp_path / "source"), disk / "file", tell=fill)
    assert os.listdir(disk) == ["filler"]


@pytest.mark.parametrize("big", [False, True])
def test_a_file_system_that_is_read_only_is_said_to_be(host, disk, big):
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    assert "read-only" in refusals(host, disk / "file", big)


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


def test_no_more_is_held_in_memory_than_was_allowed(host, tmp_path):
    (tmp_path / "file").write_bytes(bytes(MIB + 1))
    with pytest.raises(CopyFailed, match="more than 1048576 bytes"):
        host.get(str(tmp_path / "file"), most=MIB)


def test_a_local_link_or_folder_is_never_written_to(host, tmp_path):
    (tmp_path / "there").write_bytes(b"new")
    (tmp_path / "kept").write_bytes(b"kept")
    (tmp_path / "link").symlink_to("kept")
    for name in ("link", "no/file", "."):
        with pytest.raises(BadInput):
            host.get_file(str(tmp_path / "there"), tmp_path / name)
    assert (tmp_path / "kept").read_bytes() == b"kept"


def test_what_has_no_bytes_of_its_own_is_not_sent_and_no_name_of_half_a_letter_is_looked_for(
    host, tmp_path
):
    for content, path in [("text", "file"), (b"bytes", "\ud800")]:
        with pytest.raises(BadInput):
            host.put(content, str(tmp_path / path))
    with pytest.raises(BadInput, match="names no file"):
        host.get(str(tmp_path / "\ud800"))
    assert os.listdir(tmp_path) == []


# --- the arithmetic --------------------------------------------------------------------------


def test_our_cksum_is_that_of_the_tool(tmp_path):
    for size in (0, 1, 255, 256, 70_000):
        content = noise(size)
        said = subprocess.run(["cksum"], input=content, capture_output=True).stdout
        taken = Cksum()
        taken.update(content[:100])
        taken.update(content[100:])
        assert taken.hexdigest() == said.split()[0].decode()


@pytest.mark.parametrize("lanes", [1, 2, 8])
@pytest.mark.parametrize("size", [MIB - 1, 100 * MIB - 5, 10 << 30])
def test_pieces_are_the_lacking_blocks_and_no_others(lanes, size):
    blocks = Blocks(size)
    count = -(-size // blocks.length)
    for lacking in ([], range(count), range(0, count, 2), sorted({0, count - 1})):
        pieces = blocks.pieces(lacking, lanes)
        ends = [(one.start // blocks.length, one.start + one.size) for one in pieces]
        found = [n for first, end in ends for n in range(first, -(-end // blocks.length))]
        assert found == list(lacking)
        assert sum(piece.size for piece in pieces) == blocks.total(lacking)
    assert count <= 200
