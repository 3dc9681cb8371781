"""A bundle: results in one file, to send to somebody; opening one never runs anything of it.

It is a zip archive of the folder of results, nothing compressed twice, the same bytes for the same
results. `manifest.json` comes first and says what it holds, with a SHA-256 of each file. A small
bundle is such an archive packed with xz as a whole, its raw texts not packed one by one. As a
folder it is an RO-Crate (`crate.py`).
"""

import gzip
import hashlib
import io
import lzma
import os
import re
import shlex
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from labkit import __version__
from labkit.errors import BadInput, ResultsError
from labkit.host import NOTHING
from labkit.machine import account, records, workspace
from labkit.machine.places import HOME, first_file, out
from labkit.results import MOST_TEXT, Results
from labkit.runs import crate, looks

FORMAT = 2
FORMATS = (1, FORMAT)
"""Formats that can be read; 1 has no description as an RO-Crate."""
SUFFIX = ".labkit"
FILTERS = ({"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "pb": 0},)
"""Filters that suit text: what comes next depends on the letter before, and on no alignment."""
MANIFEST = "manifest.json"
MOST_FILES = 100_000
MOST_BYTES = 4 << 30
XZ = b"\xfd7zXZ\0"
"""First bytes of a small bundle."""
MOST_SMALL, MOST_MEMORY = 256 << 20, 128 << 20
"""The bytes that a small bundle may unpack to, and that unpacking it may take beside them."""
# All that results may hold; what matches can neither leave the folder nor hide in it.
RUN = r"runs/[0-9]{3,9}-[A-Za-z0-9-][A-Za-z0-9.-]{0,149}"
NAME = re.compile(
    rf"(study|looks)\.json|{RUN}/(run\.json|SHA256SUMS|raw/[A-Za-z0-9_-][A-Za-z0-9._-]{{0,99}}\.gz)"
)
STUDY = re.compile(r"[a-z][a-z0-9_]{0,63}")
OWN_MARK = re.compile(r"-([0-9a-f]{8})$")
"""The digest of the question, which the folder of results that were measured here ends with."""
UNPACKED_NAME = re.compile(r"([0-9a-f]{8})[0-9a-f]{24}")
"""The folder of a bundle that was unpacked to be read."""
FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


@dataclass(frozen=True)
class Bundle:
    """A bundle that was looked at: what it says it holds, and the digest of the whole file."""

    path: Path
    study: str
    name: str
    files: Mapping[str, str]
    digest: str


def export(
    results: Results, file: Path, small: bool = False, document: Mapping[str, str] = NOTHING
) -> Bundle:  # fmt: skip
    """Write the results as one file; damaged ones and a file that is there already are refused.

    A `small` one takes less space, and seconds to write. `document` is what they are judged by: its
    `name` and `url`.
    """
    if file.exists():
        raise BadInput(f"{file} is there already", hint="choose another name")
    if not file.parent.is_dir():
        hint = f"mkdir {shlex.quote(str(file.parent))}"
        raise BadInput(f"{file} cannot be written", said=f"no folder {file.parent}", hint=hint)
    if wrong := [line for run in results.runs() for line in run.check()]:
        raise ResultsError(f"{results.path} is damaged, so it is not exported", said=wrong[0])
    with records.keeping(f"{file}"), records.half(file) as half:
        _write(results, half, small, document)
        records.place(half, file)
    return examine(file)


def examine(file: Path) -> Bundle:
    """Look at a bundle without unpacking it: is it one, and is it safe to unpack?"""
    with _open(file) as archive:
        content = _read(archive, MANIFEST, records.MOST_JSON)
        manifest = records.parse_json(content, f"{file}: {MANIFEST}")
        if manifest.get("bundle") not in FORMATS:
            raise ResultsError(
                f"{file}: is a bundle of format {manifest.get('bundle')!r}; this labkit reads "
                f"{FORMAT}", hint="a newer labkit wrote it; update yours")  # fmt: skip
        digests = _list_files(file, manifest)
        has_crate = manifest["bundle"] != 1
        _insist(file, archive, {*digests, *([crate.FILE] if has_crate else [])})
        if has_crate:
            told_of = _read(archive, crate.FILE, records.MOST_JSON)
            _insist_same(told_of, str(manifest.get("crate")), f"{file}: {crate.FILE}")
    return Bundle(file, manifest["study"], manifest["name"], digests, records.digest(file))


def unpack(bundle: Bundle, folder: Path) -> Results:
    """Unpack to a folder that is not there yet: all of it, each file as its digest says."""
    if folder.exists():
        raise BadInput(f"{folder} is there already; nothing is overwritten")
    with _open(bundle.path) as archive, records.keeping(f"{folder}"), records.half(folder) as half:
        for name, digest in bundle.files.items():
            content = _read(archive, name, MOST_TEXT)
            _insist_same(content, digest, f"{bundle.path}: {name}")
            (half / name).parent.mkdir(parents=True, exist_ok=True)
            records.write(half / name, content)
        try:
            results = Results.open(half)
            if results.study != bundle.study:
                problem = f"{bundle.path}: its manifest and its results name different studies"
                raise ResultsError(problem)
            if wrong := [line for run in results.runs() for line in run.check()]:
                raise ResultsError(f"{bundle.path}: holds damaged results", said=wrong[0])
        except ResultsError as error:
            what, said = (x.replace(str(half), str(bundle.path)) for x in (error.what, error.said))
            raise ResultsError(what, said=said, hint=error.hint) from None
        records.place(half, folder)
    return Results.open(folder)


def take_in(file: Path) -> tuple[Results, bool]:
    """Import a bundle beside the results of this machine, and whether it was new here."""
    bundle = examine(file)
    folder = out() / "results" / bundle.study / bundle.name
    if not folder.exists():
        return unpack(bundle, folder), True
    digests = {name: records.digest(folder / name) for name in _names(folder)}
    # Somebody may have looked at them once more since.
    same = {name: digest for name, digest in bundle.files.items() if name != looks.FILE}
    if not same.items() <= digests.items():
        problem = f"{folder} holds other results of that name; nothing was changed"
        raise BadInput(problem, hint=f"open the bundle where it is: where = {str(file)!r}")
    return Results.open(folder), False


def open_bundle(file: Path) -> Path:
    """The folder to read a bundle from: unpacked once under `out`, whatever its own disk allows.

    Where nothing can be written there, as by the user of an installed labkit: in their cache.
    """
    with suppress(FileNotFoundError):
        inside = Path("bundles") / records.digest(file)[:32]
        for place in (out(), account.cache()):
            if paths := [path.parent for path in (place / inside).glob("[!.]*/study.json")]:
                return paths[0]
    bundle = examine(file)
    above = next(place for place in (out(), *out().parents) if place.exists())
    place = out() if os.access(above, os.W_OK) else account.cache()
    folder = place / "bundles" / bundle.digest[:32] / bundle.name
    try:
        return unpack(bundle, folder).path
    except (BadInput, ResultsError):
        # Another process may have unpacked it meanwhile, and does so wholly or not at all.
        if not (folder / "study.json").is_file():
            raise
        return folder


def recorded(study: str) -> Path:
    """The recorded run of a study that comes with labkit, unpacked."""
    folders = (HOME / "data" / "recorded", *workspace.folders("recorded"))
    files = (folder / f"{study}{SUFFIX}" for folder in folders)
    if (file := first_file(files)) is None:
        raise ResultsError(f"{study} has no recorded run", hint=f"labkit run {study}")
    return open_bundle(file)


def mark(path: Path) -> str:
    """Eight letters that tell these results, or this bundle, from all others of their label."""
    if path.suffix == SUFFIX:
        return records.digest(path)[:8]
    if path.is_relative_to(out() / "results") and (match := OWN_MARK.search(path.name)):
        return match[1]
    if match := UNPACKED_NAME.fullmatch(path.parent.name):
        return match[1]
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]


ODD = (zipfile.BadZipFile, lzma.LZMAError, NotImplementedError, RuntimeError, ValueError, EOFError,
       OSError)  # fmt: skip
"""Errors of zipfile about files that are no archive, or none of ours."""


@contextmanager
def _open(file: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with ExitStack() as stack:
            try:
                archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(_archive(file))))
            except FileNotFoundError:
                raise ResultsError(f"no bundle {file}") from None
            except ODD as error:
                hint = "--from TOOL reads what another tool wrote"
                problem = f"{file}: is not a whole bundle"
                raise ResultsError(problem, said=str(error), hint=hint) from None
            archive.filename = str(file)
            yield archive
    except OSError as error:  # a disk that is about to fail may say so when a file is closed
        raise ResultsError(f"{file}: cannot be read", said=str(error)) from None


def read_json(bundle: Bundle, name: str) -> dict[str, Any]:
    """One of the files that a bundle holds, read where it lies."""
    with _open(bundle.path) as archive:
        return records.parse_json(_read(archive, name, records.MOST_JSON), f"{bundle.path}: {name}")


def _archive(file: Path) -> IO[bytes]:
    with file.open("rb") as stream:
        if stream.read(len(XZ)) != XZ:
            return file.open("rb")
    return io.BytesIO(_unpack(file, file.stat().st_mtime_ns))


# The next to open it is most often the same reader.
@lru_cache(1)
def _unpack(file: Path, _: int) -> bytes:
    packer = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY)
    content = packer.decompress(file.read_bytes(), MOST_SMALL)
    if not packer.eof or packer.unused_data:
        raise ValueError(f"it is cut short, or unpacks to more than {MOST_SMALL >> 20} MiB")
    return content


def _write(results: Results, file: Path, small: bool, document: Mapping[str, str]) -> None:
    names = sorted(name for name in _names(results.path) if NAME.fullmatch(name))
    files = {name: (results.path / name).read_bytes() for name in names}
    if small:
        files = _loose(files)
    digests = {name: hashlib.sha256(target).hexdigest() for name, target in files.items()}
    told_of = crate.metadata(results, results.path.name, MANIFEST, document).encode()
    manifest = {"bundle": FORMAT, "labkit": __version__, "study": results.study,
                "name": results.path.name, "crate": hashlib.sha256(told_of).hexdigest(),
                "files": digests}  # fmt: skip
    archive, heads = io.BytesIO(), {MANIFEST: records.pretty(manifest), crate.FILE: told_of}
    with zipfile.ZipFile(archive, "x", zipfile.ZIP_STORED) as target:
        for name, content in {**heads, **files}.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr, entry.create_system = (stat.S_IFREG | 0o644) << 16, 3
            target.writestr(entry, content)
    packed_bytes = archive.getvalue()
    file.write_bytes(lzma.compress(packed_bytes, filters=FILTERS) if small else packed_bytes)
    records.sync(file)


# The same texts in gzip's form, but not packed: what is packed once is never packed much better.
def _loose(files: Mapping[str, bytes]) -> dict[str, bytes]:
    loose = {
        name: gzip.compress(gzip.decompress(file), 0, mtime=0) if name.endswith(".gz") else file
        for name, file in files.items()
    }
    for sums in (name for name in files if name.endswith(f"/{records.SUMS}")):
        folder = sums.rpartition("/")[0]
        names = [line.partition("  ")[2] for line in files[sums].decode().splitlines()]
        contents = (loose[os.path.normpath(f"{folder}/{name}")] for name in names)
        digests = (hashlib.sha256(content).hexdigest() for content in contents)
        lines = (f"{digest}  {name}\n" for digest, name in zip(digests, names, strict=True))
        loose[sums] = "".join(lines).encode()
    return loose


def _list_files(file: Path, manifest: Mapping[str, Any]) -> dict[str, str]:
    study, name, files = (manifest.get(key) for key in ("study", "name", "files"))
    if not (isinstance(study, str) and STUDY.fullmatch(study)):
        raise ResultsError(f"{file}: {str(study)[:80]!r} is not a name of a study")
    if not (isinstance(name, str) and FOLDER.fullmatch(name)):
        raise ResultsError(f"{file}: {str(name)[:80]!r} is not a name of results")
    if not (isinstance(files, dict) and "study.json" in files):
        raise ResultsError(f"{file}: its manifest lists no results")
    if odd := [file_name for file_name in files if not NAME.fullmatch(file_name)]:
        raise ResultsError(f"{file}: {odd[0][:120]!r} may not be in a bundle")
    if len({file_name.casefold() for file_name in files}) < len(files):
        raise ResultsError(f"{file}: names two files that some disks may confuse")
    return files


# Nothing is compressed, so that an archive can hold no more than it is long.
def _insist(file: Path, zip_file: zipfile.ZipFile, file_names: set[str]) -> None:
    entries = zip_file.infolist()
    names = [entry.filename for entry in entries]
    if len(names) > MOST_FILES:
        raise ResultsError(f"{file}: holds more than {MOST_FILES} files")
    if len(set(names)) < len(names) or set(names) != {MANIFEST, *file_names}:
        raise ResultsError(f"{file}: does not hold the files that its manifest lists, once each")
    for entry in entries:
        mode = entry.external_attr >> 16
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise ResultsError(f"{file}: {entry.filename} is compressed or encrypted")
        if mode and not stat.S_ISREG(mode):
            raise ResultsError(f"{file}: {entry.filename} is not a plain file")
    size = sum(entry.file_size for entry in entries)
    assert zip_file.fp
    if size > min(MOST_BYTES, zip_file.fp.seek(0, os.SEEK_END)):
        raise ResultsError(f"{file}: would unpack to {size} bytes")


def _read(zip_file: zipfile.ZipFile, name: str, limit: int) -> bytes:
    try:
        with zip_file.open(name) as entry:
            read = entry.read(limit + 1)
    except KeyError:
        raise ResultsError(f"{zip_file.filename}: is not a bundle (it has no {name})") from None
    except ODD as error:
        raise ResultsError(f"{zip_file.filename}: {name} cannot be read", said=str(error)) from None
    if len(read) > limit:
        raise ResultsError(f"{zip_file.filename}: {name} is larger than {limit >> 20} MiB")
    return read


def _insist_same(content: bytes, digest: str, title: str) -> None:
    if hashlib.sha256(content).hexdigest() != digest:
        raise ResultsError(f"{title} is not what was exported (its checksum differs)")


def _names(folder: Path) -> list[str]:
    below = records.files_below(folder)
    files = (path for path in below if path.is_file() and not path.is_symlink())
    return [path.relative_to(folder).as_posix() for path in files]
