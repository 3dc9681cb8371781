"""Measurements of other tools, as results: each file reads one format; the folder is the registry.

A format is a module with `read(text) -> list[Sample]`: pure, and refusing what it cannot read by
the line. Where a tool prints each value, or a histogram of them, all of them are read. Where it
prints summaries only, each summary is a metric with one value per run. One that leaves something
out, such as a last line that was cut off, says so by `left_out(text) -> str`. One whose files hold
several runs says which by `parts(text)`: of each its condition, its block and its text. Start with
`redis_benchmark.py`.
"""

import gzip
import hashlib
import importlib.util
import pkgutil
import shlex
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

from labkit.claims.judged_as import KEY, Claimed, check_unit, with_claimed
from labkit.errors import BadInput, LabkitError, ResultsError, Unknown, insist_each
from labkit.machine import workspace
from labkit.machine.places import out
from labkit.results import IMPORTS, Results, Run, stored
from labkit.workload import Sample, row

STUDY = "imported"
workspace.extend(__path__, "imports")
MOST_BYTES = 256 << 20
OWN = "each block of each condition is a measurement of its own"
BY_METRIC = "--metric 'NAME: CONDITION=METRIC'"


def names() -> list[str]:
    """The formats that can be imported."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def find(name: str) -> ModuleType:
    """The format of that name; `redis-benchmark` is read as `redis_benchmark`."""
    stem = name.replace("-", "_")
    if stem not in names():
        raise Unknown("format", name, names())
    name = f"{__name__}.{stem}"
    spec = importlib.util.find_spec(name)
    file = Path(spec.origin or "") if spec else Path()
    with workspace.reading_own(file):
        module = importlib.import_module(name)
        if not callable(getattr(module, "read", None)):
            raise BadInput("it has no `read`", hint="def read(text: str) -> list[Sample]")
    return module


def text_of(file: Path) -> str:
    """The text of a file, unpacked from gzip; what is too large or no text is refused."""
    try:
        with file.open("rb") as stream:
            is_packed = stream.read(2) == b"\x1f\x8b"
        with gzip.open(file) if is_packed else file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except EOFError:
        raise ResultsError(f"{file}: is cut short") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ResultsError(f"{file}: cannot be unpacked", said=str(error)) from None
    except OSError as error:
        raise ResultsError(f"{file}: cannot be read", said=str(error)) from None
    if len(content) > MOST_BYTES:
        raise ResultsError(f"{file}: is larger than {MOST_BYTES >> 20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        hint = "convert it to UTF-8: `iconv -f UTF-16` for PowerShell, `-f CP1252` for perfmon"
        raise ResultsError(f"{file}: is not text", said=str(error), hint=hint) from None


@dataclass(frozen=True)
class Source:
    """A file, and the tool that wrote it."""

    tool: str
    path: Path


@dataclass(frozen=True)
class _Part:
    # The text of one tool in one block, and what it says.
    source: Source
    condition: str
    block: int
    text: str
    samples: list[Sample]
    left: str = ""
    number: int = 0
    """Of its file, among all that were named."""

    @property
    def raw(self) -> str:
        return f"import-{self.source.tool}.txt"


def take_in(
    tool: str, files: Mapping[str, Sequence[Path | Source]], label: str,
    claims: Claimed | None = None, trials: bool = False,
) -> Results:  # fmt: skip
    """Import files as new results: condition -> its files, one block each, unless they say more.

    Files are of the format `tool`, or say theirs. Those of several tools with one condition are
    numbered by tool, so that the first of each are one block. With `trials` each value is a block.
    With `claims`, conditions and metrics are those of the claims that the runs can be judged on.
    """
    sources = [(name, file if isinstance(file, Source) else Source(tool, file))
               for name, files_of in files.items() for file in files_of]  # fmt: skip
    sources = [(name, replace(file, tool=file.tool.replace("-", "_"))) for name, file in sources]
    # Everything is read before anything is written.
    parts = list(_number(
        replace(part, number=number)
        for number, file in enumerate(sources) for part in _parts(*file, trials)
    ))  # fmt: skip
    _insist_one_unit(parts, claims)
    _refuse_twice(parts, claims)
    path = out() / "results" / STUDY / label
    if path.exists():
        raise BadInput(f"{path} is there already", hint="choose another --label")
    tools = [*dict.fromkeys(part.source.tool for part in parts)]
    _refuse_again(tools, parts, claims)
    conditions = [*dict.fromkeys(part.condition for part in parts)]
    lab = {"name": f"files of {', '.join(tools)}", "tier": IMPORTS, "accelerator": "", "hosts": {}}
    results = Results.begin(path, {
        "study": STUDY, "where": f"imported from {', '.join(tools)}", "seed": 0, "label": label,
        "lab": lab, "workload": {"name": tools[0]}, "conditions": conditions, "refused": {},
        "imported": datetime.now(UTC).isoformat(timespec="seconds"),
        **({KEY: asdict(claims)} if claims else {}),
    })  # fmt: skip
    runs: dict[tuple[str, int], list[_Part]] = {}
    for part in parts:
        runs.setdefault((part.condition, part.block), []).append(part)
    for order, ((condition, block), files_of) in enumerate(runs.items(), 1):
        _keep(results, Run(condition, block, order, "finished"), files_of, claims)
    return results


def _keep(results: Results, run: Run, parts: Sequence[_Part], claims: Claimed | None) -> None:
    remainder = "; ".join(filter(None, (part.left for part in parts)))
    names = ", ".join(part.source.path.name for part in parts)
    facts = {"file": names} | ({"left_out": remainder} if remainder else {})
    samples = [sample for part in parts for sample in part.samples]
    rows = tuple(map(row, with_claimed(claims, run.condition, samples)))
    results.keep(replace(run, rows=rows, facts=facts), {part.raw: part.text for part in parts})


# The runs that a file holds; block 0 is numbered by its place.
def _parts(condition: str, source: Source, trials: bool) -> Iterator[_Part]:
    format_of, content = find(source.tool), text_of(source.path)
    remainder, split = left_out(format_of, content), getattr(format_of, "parts", None)
    with _refusing(format_of, source.path, content):
        runs = split(content) if split else [("", 0, content)]
    inner_names = {name for name, *_ in runs}
    if condition and len(inner_names) > 1:
        problem = f"{source.path} names conditions itself: {', '.join(sorted(inner_names))}"
        raise BadInput(problem, hint="import it without naming a condition")
    for name_inside, block, text in runs:
        with _refusing(format_of, source.path, text):
            samples = _samples(format_of, text)
        name = condition or name_inside or source.path.name.split(".")[0]
        if trials:
            yield from _trials(_Part(source, name, block, text, samples, remainder))
        else:
            yield _Part(source, name, block, text, samples, remainder)


# As plain numbers, since the text of the tool holds all of them. Equal ones of different files, or
# of one, are not the same measurement: each says which it is.
def _trials(part: _Part) -> Iterator[_Part]:
    from labkit.imports.values import as_values

    source = replace(part.source, tool="values")
    digest = hashlib.sha256(part.text.encode()).hexdigest()[:12]
    for n in range(max(len(sample.values) for sample in part.samples)):
        samples = [
            replace(s, values=s.values[n : n + 1]) for s in part.samples if len(s.values) > n
        ]
        text = as_values(samples, f"of {digest}", n + 1)
        yield replace(part, source=source, block=0, text=text, samples=samples)


def _number(parts: Iterable[_Part]) -> Iterator[_Part]:
    blocks_of: dict[tuple[str, str], dict[int, Path]] = {}
    for part in parts:
        blocks = blocks_of.setdefault((part.condition, part.source.tool), {})
        block = part.block or max(blocks, default=0) + 1
        if block in blocks:
            other = f"is in {blocks[block]} too"
            problem = f"{part.source.path}: block {block} of {part.condition} {other}"
            raise BadInput(problem, hint="each block is a measurement of its own")
        blocks[block] = part.source.path
        yield replace(part, block=block)


def imported_as(study: str) -> list[Path]:
    """Imports to be judged as this study, oldest first; damaged ones are left out."""
    paths = []
    for path in stored(STUDY):
        with suppress(ResultsError):
            paths += [path] if Results.open(path).judged_as == study else []
    return paths


def left_out(format_of: ModuleType, text: str) -> str:
    """The part of a text that is not read, such as a last line cut off; empty if all of it is."""
    reader = getattr(format_of, "left_out", None)
    return str(reader(text)) if reader else ""


def _samples(format_of: ModuleType, text: str) -> list[Sample]:
    samples: list[Sample] = format_of.read(text)
    insist_each(samples, Sample, "what `read` returns", "Sample('latency', 'us', values)")
    if not samples:
        raise ResultsError("it holds no values")
    return samples


# Of several files it matters which one is no output of the tool, or which a reader fails on.
@contextmanager
def _refusing(format_of: ModuleType, file: Path, text: str) -> Iterator[None]:
    try:
        with workspace.reading_own(Path(format_of.__file__ or "")):
            yield
    except (ResultsError, BadInput) as error:
        cut = "" if text.endswith("\n") else "its last line has no end: was the file cut off?"
        problem = f"{file}: {error.what}"
        raise ResultsError(problem, said=error.said, hint=error.hint or cut) from None


# What counts twice makes intervals too narrow. Of one file with several tests each condition may
# have a figure of its own.
def _refuse_twice(parts: Sequence[_Part], claims: Claimed | None) -> None:
    taken_by: dict[tuple[str, object], _Part] = {}
    for part in parts:
        samples = claims.samples(part.condition, part.samples) if claims else []
        figures = tuple((sample.metric, sample.values.tobytes()) for sample in samples)
        for content in ((part.text, part.condition), (part.text, figures)):
            twin = taken_by.setdefault(content, part)
            # Equal numbers of one file were written down twice by its author.
            if twin.number != part.number:
                same = f"the same content as {twin.source.path}, for {twin.condition}"
                hint = f"{OWN}\nof several tests in one file: {BY_METRIC} for each"
                raise BadInput(f"{part.source.path}, for {part.condition}, has {same}", hint=hint)


def _refuse_again(tools: Sequence[str], parts: Sequence[_Part], claims: Claimed | None) -> None:
    digests = ((part.condition, hashlib.sha256(part.text.encode()).hexdigest()) for part in parts)
    identity = tools[0], claims, sorted(digests)
    for path in stored(STUDY):
        with suppress(LabkitError):
            results = Results.open(path)
            runs = sorted((run.condition, digest) for run in results.runs()
                          for digest in run.raw.values())  # fmt: skip
            if (results.asked["workload"].get("name"), Claimed.of(results.asked), runs) == identity:
                break
    else:
        return
    command = shlex.join(["labkit", "results", "show", str(path)])
    raise BadInput(f"{path} holds these measurements already", hint=f"`{command}` shows them")


# What claims compare has to be in one unit, whatever each file has; plain values are of one anyway.
def _insist_one_unit(parts: Sequence[_Part], claims: Claimed | None) -> None:
    units: dict[str, str] = {}
    for part in parts:
        place = str(part.source.path)
        plain = part.samples if part.source.tool == "values" else ()
        for sample in claims.insist(part.condition, part.samples, place) if claims else plain:
            unit = units.setdefault(sample.metric, sample.unit)
            check_unit(sample, unit, place, "" if claims else "one metric has one unit")
