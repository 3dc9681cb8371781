"""Files of record: written whole or not at all, and read with suspicion."""

import hashlib
import json
import math
import os
import re
import secrets
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labkit.errors import ResultsError

SUMS = "SHA256SUMS"
"""The checksums of a folder, as `sha256sum --check` reads them."""
MOST_JSON = 8 << 20
# Each takes much more memory than what it is written with.
MOST_LISTS = 200_000
# What people write by hand; tomllib takes minutes for a key of very many parts.
MOST_TOML, MOST_DOTS = 1 << 18, 200
DEEPEST = 40
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


def read_json(file: Path, *, large: int = 1) -> dict[str, Any]:
    """The object in a JSON file; damage, repeated keys, NaN and bombs are refused by name.

    A file may be `large` times larger than others.
    """
    try:
        if file.stat().st_size > MOST_JSON * large:
            raise ResultsError(f"{file}: is larger than {MOST_JSON * large >> 20} MiB")
        return parse_json(file.read_bytes(), str(file), large=large)
    except FileNotFoundError:
        raise ResultsError(f"no results at {file.parent}") from None
    except OSError as error:
        raise ResultsError(f"{file}: cannot be read", said=str(error)) from None


def parse_json(content: bytes, name: str, *, unique: bool = True, large: int = 1) -> dict[str, Any]:
    """Parse bytes that are here already, like `read_json`; keys must be `unique` in each object."""
    try:
        if content.count(b"[") + content.count(b"{") > MOST_LISTS * large:
            raise ValueError(f"it has more than {MOST_LISTS * large} lists and objects")
        pairs = _check_unique if unique else dict
        read = json.loads(content, object_pairs_hook=pairs, parse_constant=finite)
        _shallow(read)
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{name}: cannot be read", said=str(error)) from None
    if not isinstance(read, dict):
        raise ResultsError(f"{name}: holds {type(read).__name__}, not an object")
    return read


def read_toml(file: Path) -> dict[str, Any]:
    """The tables of a file that people write; a ValueError or an OSError says why not."""
    if file.stat().st_size > MOST_TOML:
        raise ValueError(f"it is larger than {MOST_TOML >> 10} KiB")
    return parse_toml(file.read_text("utf-8"))


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of such a file's text; a ValueError says why not."""
    if len(text) > MOST_TOML:
        raise ValueError(f"it is larger than {MOST_TOML >> 10} KiB")
    if any(line.count(".") > MOST_DOTS for line in text.split("\n")):
        raise ValueError(f"a line has more than {MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def unlike(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The keys whose values differ, of a table also its own: `design (VM (knobs)), seed`."""
    words = []
    for key in sorted(key for key in before.keys() | after if before.get(key) != after.get(key)):
        a, b = before.get(key), after.get(key)
        parts = unlike(a, b) if isinstance(a, dict) and isinstance(b, dict) else ""
        words.append(f"{key} ({parts})" if parts else key)
    return ", ".join(words)


def pretty(fields: Mapping[str, Any]) -> bytes:
    """JSON as it is stored: one field a line, no NaN."""
    return (json.dumps(fields, indent=1, allow_nan=False, default=str) + "\n").encode()


@contextmanager
def keeping(title: str) -> Iterator[None]:
    """Turn each refusal by the disk meanwhile into an error that says what could not be kept."""
    try:
        yield
    except OSError as error:
        hint = "is the disk full? what is there already is whole"
        raise ResultsError(f"cannot keep {title}", said=str(error), hint=hint) from error


@contextmanager
def half(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to before `place`; what is left under it goes at the end."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.half")
    try:
        yield beside
    finally:
        if beside.is_dir():
            shutil.rmtree(beside, ignore_errors=True)
        else:
            beside.unlink(missing_ok=True)


def place(beside: Path, path: Path) -> None:
    """Give it its name, for good when this returns; a name that is taken is never given again."""
    if folder := beside.is_dir():
        beside.rename(path)
    else:
        os.link(beside, path)
    try:
        sync(path.parent)
    except OSError:
        # It may be gone after a power cut, so it is not there now either.
        path.rename(beside) if folder else path.unlink()
        raise


def write(path: Path, content: bytes) -> None:
    """The whole file under its name, or no file of that name; safe on disk when this returns."""
    beside = path.with_name(f".{path.name}.half")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    sync(path.parent)


def fill(folder: Path, files: Mapping[str, bytes]) -> None:
    """New files in a folder that has not its name yet, so that none of them needs a name twice."""
    for name, content in files.items():
        with (folder / name).open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    for place in {(folder / name).parent for name in files}:
        sync(place)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, safe on disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def files_below(folder: Path) -> Iterator[Path]:
    """All files and links below a folder; where it cannot be listed whole, OSError says so.

    Since Python 3.13 `Path.glob` leaves out what it cannot read.
    """
    for at, _, names in os.walk(folder, onerror=_refuse):
        yield from (Path(at, name) for name in names)


def _refuse(error: OSError) -> None:
    raise error


def sums(folder: Path, names: Iterable[str]) -> bytes:
    """The checksums of these files, one line each."""
    return "".join(f"{digest(folder / name)}  {name}\n" for name in names).encode()


def digest(file: Path) -> str:
    """The SHA-256 of a file."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ResultsError(f"{file}: cannot be read", said=str(error)) from None


def listed(folder: Path) -> dict[str, str]:
    """The folder's checksums, name -> SHA-256; empty if there are none."""
    try:
        lines = (folder / SUMS).read_text("ascii").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ResultsError(f"{folder / SUMS}: cannot be read", said=str(error)) from None
    matches = [_LINE.fullmatch(line) for line in lines]
    if not all(matches):
        raise ResultsError(f"{folder / SUMS}: line {matches.index(None) + 1} is not a checksum")
    return {match[2]: match[1] for match in matches if match}


def _check_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice[:80]!r} stands there twice")
    return fields


def finite(word: str) -> float:
    """A number in JSON; NaN and what is too large for any float are refused by a ValueError."""
    if not math.isfinite(number := float(word)):
        raise ValueError(f"{word} is not a number")
    return number


def _shallow(document: Any) -> None:
    layer, depth = [document], 0
    while layer:
        inner = [list(x.values()) if isinstance(x, dict) else x for x in layer]
        layer = [y for x in inner if isinstance(x, list) for y in x]
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
