"""Measurements of other tools, as results: each file reads one format; the folder is the registry.

A format is a module with `read(text) -> list[Sample]`: pure, and refusing what it cannot read by
the line. Where a tool prints each value, or a histogram of them, all of them are read. Where it
prints summaries only, each summary is a metric with one value per run. One that leaves something
out, such as a last line that was cut off, says so by `left_out(text) -> str`. Start with
`redis_benchmark.py`.
"""

from __future__ import annotations

import bz2
import hashlib
import importlib
import pkgutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, cast

from labkit.claims.judged_as import KEY, Claimed, check_unit, with_claimed
from labkit.errors import BadInput, LabkitError, ResultsError, Unknown
from labkit.machine import workspace
from labkit.machine.places import out
from labkit.results import Results, Run, stored
from labkit.workload import Sample, row

STUDY = TIER = "imported"
workspace.extend(__path__, "imports")
MOST_BYTES = 256 << 20


class _Unpacker(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


PACKED: Mapping[bytes, Callable[[], _Unpacker]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(wbits=31),
    b"BZh": bz2.BZ2Decompressor,
}
"""Unpackers, by the bytes that packed files begin with."""


class Format(Protocol):
    """A reader for the files of one tool."""

    def read(self, text: str) -> list[Sample]:
        """All that one file holds."""
        ...


def names() -> list[str]:
    """The formats that can be imported."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def find(name: str) -> Format:
    """The format of that name; `redis-benchmark` is read as `redis_benchmark`."""
    stem = name.replace("-", "_")
    if stem not in names():
        raise Unknown("format", name, names())
    return cast(Format, importlib.import_module(f"{__name__}.{stem}"))


def text_of(file: Path) -> str:
    """The text of a file, unpacked from gzip or bzip2; what is too large or no text is refused."""
    try:
        whole = file.read_bytes() if file.stat().st_size <= MOST_BYTES else None
    except OSError as refused:
        raise ResultsError(f"{file}: cannot be read", said=str(refused)) from None
    for first, unpacker in PACKED.items():
        if whole and whole.startswith(first):
            whole = _unpacked(file, whole, unpacker)
    if whole is None:
        raise ResultsError(f"{file}: is larger than {MOST_BYTES >> 20} MiB")
    try:
        return whole.decode("utf-8-sig")
    except UnicodeDecodeError as odd:
        hint = "convert it to UTF-8: `iconv -f UTF-16` for PowerShell, `-f CP1252` for perfmon"
        raise ResultsError(f"{file}: is not text", said=str(odd), hint=hint) from None


def take_in(
    named: str, files: Mapping[str, Sequence[Path]], label: str, claimed: Claimed | None = None
) -> Results:
    """Import files of one format as new results: condition -> its files, one block each.

    With `claimed`, conditions and metrics are those of the claims that the runs can be judged on.
    """
    kept, texts = find(named), {}
    for condition, paths in files.items():
        for block, path in enumerate(paths, 1):
            texts[condition, block] = text_of(path), path
    # Everything is read before anything is written.
    found = {key: _samples(kept, text, file) for key, (text, file) in texts.items()}
    if claimed:
        _check(claimed, {(key[0], texts[key][1]): told for key, told in found.items()})
    _refuse_twice(texts, found, claimed)
    path = out() / "results" / STUDY / label
    if path.exists():
        raise BadInput(f"{path} is there already", hint="choose another --label")
    _refuse_again(named, texts, claimed)
    lab = {"name": f"files of {named}", "tier": TIER, "accelerator": "", "hosts": {}}
    results = Results.begin(path, {
        "study": STUDY, "where": f"imported from {named}", "seed": 0, "label": label, "lab": lab,
        "workload": {"name": named.replace("-", "_")}, "conditions": list(files), "refused": {},
        "imported": datetime.now(UTC).isoformat(timespec="seconds"),
        **({KEY: asdict(claimed)} if claimed else {}),
    })  # fmt: skip
    for order, ((condition, block), (text, source)) in enumerate(texts.items(), 1):
        left = left_out(kept, text)
        facts = {"file": source.name} | ({"left_out": left} if left else {})
        rows = tuple(map(row, with_claimed(claimed, condition, found[condition, block])))
        run = Run(condition, block, order, "finished", rows=rows, facts=facts)
        results.keep(run, {"import.txt": text})
    return results


def imported_as(study: str) -> list[Path]:
    """Imports to be judged as this study, oldest first; damaged ones are left out."""
    found = []
    for path in stored(STUDY):
        with suppress(ResultsError):
            found += [path] if Results.open(path).judged_as == study else []
    return found


def left_out(kept: Format, text: str) -> str:
    """The part of a text that is not read, such as a last line cut off; empty if all of it is."""
    told = getattr(kept, "left_out", None)
    return str(told(text)) if told else ""


# Of several files it matters which one is no output of the tool.
def _samples(kept: Format, text: str, file: Path) -> list[Sample]:
    try:
        return kept.read(text)
    except ResultsError as odd:
        cut = "" if text.endswith("\n") else "its last line has no end: was the file cut off?"
        raise ResultsError(f"{file}: {odd.what}", said=odd.said, hint=odd.hint or cut) from None


# What counts twice makes intervals too narrow. Of one file with several tests each condition may
# have a figure of its own.
def _refuse_twice(
    texts: Mapping[tuple[str, int], tuple[str, Path]],
    samples: Mapping[tuple[str, int], list[Sample]], claimed: Claimed | None,
) -> None:  # fmt: skip
    taken_by: dict[tuple[str, object], tuple[str, Path]] = {}
    for (condition, block), (text, file) in texts.items():
        judged = claimed.samples(condition, samples[condition, block]) if claimed else []
        figures = tuple((sample.metric, sample.values.tobytes()) for sample in judged)
        for taken in ((text, condition), (text, figures)):
            if taken in taken_by:
                name, other = taken_by[taken]
                raise BadInput(
                    f"{file}, for {condition}, has the same content as {other}, for {name}",
                    hint="each block of each condition is a measurement of its own\n"
                    "of several tests in one file: --metric 'NAME: CONDITION=METRIC' for each",
                )
            taken_by[taken] = condition, file


def _refuse_again(
    named: str, texts: Mapping[tuple[str, int], tuple[str, Path]], claimed: Claimed | None
) -> None:
    digests = ((key[0], hashlib.sha256(text.encode()).hexdigest())
               for key, (text, _) in texts.items())  # fmt: skip
    identity = named.replace("-", "_"), claimed, sorted(digests)
    for path in stored(STUDY):
        with suppress(LabkitError):
            results = Results.open(path)
            runs = sorted((run.condition, digest) for run in results.runs()
                          for digest in run.raw.values())  # fmt: skip
            if (results.asked["workload"].get("name"), Claimed.of(results.asked), runs) == identity:
                break
    else:
        return
    raise BadInput(
        f"{path} holds these measurements already",
        hint=f"`labkit results show {path}` shows them",
    )


# What is compared has to be in one unit, whatever each file has.
def _check(claimed: Claimed, found: Mapping[tuple[str, Path], list[Sample]]) -> None:
    units: dict[str, str] = {}
    for (condition, file), told in found.items():
        for sample in claimed.insist(condition, told, str(file)):
            check_unit(sample, units.setdefault(sample.metric, sample.unit), str(file))


# A packed file may have been appended to, and is then several in a row. None is too large a text.
def _unpacked(file: Path, whole: bytes, unpacker: Callable[[], _Unpacker]) -> bytes | None:
    text = b""
    while whole:
        one, room = unpacker(), MOST_BYTES - len(text)
        try:
            part = one.decompress(whole, room) if room else b""
        except (zlib.error, OSError) as odd:
            raise ResultsError(f"{file}: cannot be unpacked", said=str(odd)) from None
        if not one.eof and len(part) == room:
            return None
        if not one.eof:
            raise ResultsError(f"{file}: is cut short")
        text += part
        whole = one.unused_data.lstrip(b"\0")
    return text
