"""One file that holds results: the same bytes each time, whole or refused, and never a way in."""

import io
import json
import lzma
import re
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from labkit.errors import BadInput, ResultsError
from labkit.machine.places import out
from labkit.machine.records import pretty
from labkit.results import Results, Run
from labkit.running.open_lab import is_stored, stored_results
from labkit.runs import bundle, crate

ASKED = {"study": "lat_ping", "where": "box", "label": "x", "lab": {"name": "l", "tier": "test"}}


@pytest.fixture
def results(tmp_path, own_out):
    made = Results.begin(tmp_path / "made" / "x-1", ASKED)
    made.keep(Run("Native", 1, 1, "finished", rows=({"n": 3},)), {"ping.txt": "64 bytes\n" * 100})
    made.keep(Run("VM-SRIOV", 1, 2, "failed", why="no answer"), {})
    return made


@pytest.fixture
def packed(results, tmp_path):
    return bundle.export(results, tmp_path / "x.labkit")


def tree(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_is_exported_and_imported_is_the_same_to_the_byte(results, packed):
    taken, new = bundle.take_in(packed.path)
    assert new and tree(taken.path) == tree(results.path)
    assert [run.state for run in taken.runs()] == ["finished", "failed"]
    assert bundle.take_in(packed.path) == (taken, False)


def test_the_same_results_give_the_same_bytes(results, packed, tmp_path):
    again = bundle.export(results, tmp_path / "again.labkit")
    assert again.path.read_bytes() == packed.path.read_bytes()
    assert again.digest == packed.digest


def test_reports_of_different_results_of_one_label_have_different_names(results, packed, tmp_path):
    other = Results.begin(tmp_path / "other" / "x-1", {**ASKED, "seed": 2})
    other.keep(Run("Native", 1, 1, "finished"), {})
    second = bundle.export(other, tmp_path / "second.labkit")
    places = [results.path, other.path, packed.path, second.path,
              tmp_path / "out/results/lat_ping/x-0123abcd"]  # fmt: skip
    marks = [bundle.mark(path) for path in places]
    assert len({*marks}) == 5 and marks[-1] == "0123abcd"
    assert all(re.fullmatch("[0-9a-f]{8}", mark) for mark in marks)
    assert [bundle.mark(bundle.open_bundle(path)) for path in places[2:4]] == marks[2:4]


def test_a_bundle_is_a_place_to_run_a_notebook_on(results, packed):
    assert is_stored(str(packed.path))
    opened = stored_results("lat_ping", str(packed.path))
    assert [run.text("ping.txt") for run in opened.finished()] == ["64 bytes\n" * 100]
    assert stored_results("lat_ping", str(packed.path)).path == opened.path


def test_export_never_replaces_a_file_and_leaves_nothing_half(results, packed, tmp_path):
    before = packed.path.read_bytes()
    with pytest.raises(BadInput, match="is there already"):
        bundle.export(results, packed.path)
    assert packed.path.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_damaged_results_are_not_exported(results, tmp_path):
    kept = results.runs()[0].path / "raw" / "ping.txt.gz"
    kept.write_bytes(kept.read_bytes()[:-3])
    with pytest.raises(ResultsError, match="damaged"):
        bundle.export(results, tmp_path / "y.labkit")


def test_import_never_overwrites_other_results_of_that_name(results, packed):
    taken, _ = bundle.take_in(packed.path)
    taken.keep(Run("Native", 2, 3, "finished"), {})
    before = tree(taken.path)
    assert bundle.take_in(packed.path)[1] is False  # more than the bundle holds is no conflict
    (taken.path / "study.json").write_text("{}")
    changed = tree(taken.path)
    with pytest.raises(BadInput, match="holds other results"):
        bundle.take_in(packed.path)
    assert tree(taken.path) == changed != before


@pytest.fixture
def small(results, tmp_path):
    return bundle.export(results, tmp_path / "small.labkit", small=True)


@pytest.mark.slow
def test_a_small_bundle_holds_the_same_texts_and_facts_in_less_space(results, small, tmp_path):
    text = "".join(f"[{n}.5] 64 bytes from 192.0.2.1: time={n % 97} ms\n" for n in range(9000))
    results.keep(Run("Native", 2, 3, "finished"), {"ping.txt": text})
    usual = bundle.export(results, tmp_path / "usual.labkit").path
    packed = bundle.export(results, tmp_path / "less.labkit", small=True).path
    assert packed.stat().st_size < 0.7 * usual.stat().st_size
    opened = Results.open(bundle.open_bundle(packed))
    assert opened.asked == results.asked
    for run, own in zip(opened.runs(), results.runs(), strict=True):
        assert run.check() == [] and replace(run, path=own.path) == own
        assert all(run.text(name) == own.text(name) for name in own.raw)


def test_a_small_bundle_is_the_same_each_time_and_is_unpacked_once(results, small, tmp_path):
    again = bundle.export(results, tmp_path / "again.labkit", small=True)
    assert again.path.read_bytes() == small.path.read_bytes()
    folder = bundle.open_bundle(small.path)
    before = folder.stat().st_ino
    assert bundle.open_bundle(again.path) == folder and folder.stat().st_ino == before


def test_readers_that_open_a_bundle_at_once_all_get_it(small):
    with ThreadPoolExecutor(8) as readers:
        folders = list(readers.map(bundle.open_bundle, [small.path] * 8))
    assert len(set(folders)) == 1 and Results.open(folders[0]).runs()
    assert not list(folders[0].parent.glob(".*"))


def test_a_small_bundle_is_read_by_way_of_the_users_cache(results, small, tmp_path, monkeypatch):
    monkeypatch.setattr(bundle.os, "access", lambda *_: False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = bundle.open_bundle(small.path)
    assert folder.is_relative_to(tmp_path / "cache/labkit/bundles")
    assert bundle.open_bundle(small.path) == folder and not (out() / "bundles").exists()


@pytest.mark.slow
@pytest.mark.parametrize("odd", [
    lambda whole: whole[:-9], lambda whole: whole + b"more",
    lambda whole: whole[:40] + b"\0\0\0\0" + whole[44:], lambda whole: lzma.compress(b"no zip"),
    lambda whole: lzma.compress(bytes(9 << 20)),
], ids=["cut short", "more behind it", "damaged", "no archive", "without end"])  # fmt: skip
def test_a_small_bundle_that_is_none_is_refused(small, monkeypatch, odd):
    monkeypatch.setattr(bundle, "MOST_SMALL", 8 << 20)
    small.path.write_bytes(odd(small.path.read_bytes()))
    with pytest.raises(ResultsError, match=r"is not a whole bundle|is not a bundle"):
        bundle.examine(small.path)


# --- what somebody else made ---------------------------------------------------------------------


def entries(packed):
    with zipfile.ZipFile(packed.path) as whole:
        return {info.filename: whole.read(info) for info in whole.infolist()}


def written(path, files, *, change=lambda info: None, twice=(), compression=zipfile.ZIP_STORED):
    """A zip archive of these files, as somebody hostile would write it."""
    with zipfile.ZipFile(path, "w") as whole:
        for name, text in [*files.items(), *twice]:
            info = zipfile.ZipInfo(name)
            info.compress_type = compression
            change(info)
            whole.writestr(info, text)
    return path


def with_manifest(entries, **changed):
    manifest = json.loads(entries[bundle.MANIFEST])
    return {**entries, bundle.MANIFEST: pretty({**manifest, **changed})}


def with_file(files, name, text=b"x"):
    """The file is listed in the manifest too, with its right digest."""
    import hashlib

    listed = json.loads(files[bundle.MANIFEST])["files"]
    more = {**listed, name: hashlib.sha256(text).hexdigest()}
    return {**with_manifest(files, files=more), name: text}


def without(files, name):
    return {k: v for k, v in files.items() if k != name}


RUN = "runs/001-Native-b1"
HOSTILE_NAMES = [
    "../evil", "/etc/evil", "runs/../../evil", f"{RUN}/../../../evil", "C:\\evil", "runs\\evil",
    f"{RUN}/raw/../../x.gz", f"{RUN}/raw/.hidden.gz", f"{RUN}/raw/a b.gz", f"{RUN}/x.py", "x.py",
    f"{RUN}/raw/deep/er.gz", f"{RUN}/raw/ping.txt.gz\n", "runs/001-Ünï/run.json", "__init__.py",
    "sitecustomize.py", f"{RUN}/RUN.json", "runs/001-..b1/../x", "runs/1-a/run.json",
    "study.json/x", f"{RUN}/raw/{'n' * 200}.gz",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_a_name_that_results_do_not_have_is_refused_and_nothing_is_written(packed, tmp_path, name):
    bad = written(tmp_path / "bad.labkit", with_file(entries(packed), name))
    with pytest.raises(ResultsError):
        bundle.take_in(bad)
    assert not (tmp_path / "out").exists()


def link(info):
    if info.filename.endswith("run.json"):
        info.external_attr = (stat.S_IFLNK | 0o777) << 16


def encrypted(whole):
    with_flag = bytearray(whole)
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        with_flag[with_flag.index(mark) + at] |= 1
    return bytes(with_flag)


CHANGES = {
    "a link": lambda f, p: written(p, f, change=link),
    "compressed": lambda f, p: written(p, f, compression=zipfile.ZIP_DEFLATED),
    "a file twice": lambda f, p: written(p, f, twice=[("study.json", b"{}")]),
    "a file that the manifest lacks": lambda f, p: written(p, {**f, f"{RUN}/raw/x.gz": b""}),
    "a file that is gone": lambda f, p: written(p, without(f, "study.json")),
    "no manifest": lambda f, p: written(p, without(f, bundle.MANIFEST)),
    "a newer format": lambda f, p: written(p, with_manifest(f, bundle=2)),
    "a study that is a path": lambda f, p: written(p, with_manifest(f, study="../../etc")),
    "a name that is a path": lambda f, p: written(p, with_manifest(f, name="..")),
    "another study": lambda f, p: written(p, with_manifest(f, study="other")),
    "files that are no object": lambda f, p: written(p, with_manifest(f, files=["study.json"])),
    "a changed file": lambda f, p: written(p, {**f, "study.json": f["study.json"] + b" "}),
    "a manifest of NaN": lambda f, p: written(p, {**f, bundle.MANIFEST: b'{"bundle": NaN}'}),
    "a key twice": lambda f, p: written(p, {**f, bundle.MANIFEST: b'{"bundle": 1, "bundle": 1}'}),
    "a deep manifest": lambda f, p: written(p, {**f, bundle.MANIFEST: b"[" * 100_000}),
    "two names of one file": lambda f, p: written(p, with_file(f, f"{RUN.lower()}/run.json")),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("change", CHANGES)
def test_a_bundle_that_is_not_what_export_writes_is_refused(packed, tmp_path, change):
    bad = CHANGES[change](entries(packed), tmp_path / "bad.labkit")
    with pytest.raises(ResultsError):
        bundle.take_in(bad)
    assert not list((tmp_path / "out").rglob("*.json"))


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.999])
def test_a_bundle_cut_short_anywhere_is_refused(packed, tmp_path, share):
    content = packed.path.read_bytes()
    (tmp_path / "cut.labkit").write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ResultsError, match="not a whole bundle"):
        bundle.take_in(tmp_path / "cut.labkit")


def test_an_encrypted_bundle_is_refused(packed, tmp_path):
    (tmp_path / "bad.labkit").write_bytes(encrypted(packed.path.read_bytes()))
    with pytest.raises(ResultsError):
        bundle.take_in(tmp_path / "bad.labkit")


@pytest.mark.slow
def test_no_flipped_bit_of_a_bundle_passes(packed, tmp_path):
    whole, names = packed.path.read_bytes(), entries(packed)
    passed = []
    for at in range(0, len(whole), 11):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << (at % 8)
        (tmp_path / "bad.labkit").write_bytes(flipped)
        try:
            found = bundle.examine(tmp_path / "bad.labkit")
            results = bundle.unpack(found, tmp_path / f"to-{at}")
        except ResultsError:
            continue
        # Dates, attributes and comments of the archive mean nothing; what it holds must be right.
        passed.append({k: (results.path / k).read_bytes() for k in found.files})
    heads = (bundle.MANIFEST, crate.FILE)
    wanted = {name: text for name, text in names.items() if name not in heads}
    assert all(files == wanted for files in passed)
    assert len(passed) < len(whole) / 11 / 3


def test_a_run_that_names_a_path_as_its_raw_text_is_refused(results):
    folder = results.runs()[0].path
    fields = json.loads((folder / "run.json").read_text())
    fields["raw"] = {"../../../../etc/passwd": "0" * 64}
    (folder / "SHA256SUMS").unlink()
    (folder / "run.json").write_bytes(pretty(fields))
    with pytest.raises(ResultsError, match="not a name of a raw text"):
        results.runs()


def test_a_raw_text_that_unpacks_without_end_is_refused(results, monkeypatch):
    import gzip

    monkeypatch.setattr("labkit.results.MOST_TEXT", 1 << 20)
    run = results.runs()[0]
    bomb = io.BytesIO()
    with gzip.GzipFile(fileobj=bomb, mode="wb") as file:
        file.write(bytes(8 << 20))
    (run.path / "raw" / "ping.txt.gz").write_bytes(bomb.getvalue())
    with pytest.raises(ResultsError, match="larger than 1 MiB"):
        run.text("ping.txt")
