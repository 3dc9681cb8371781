"""The scorecard from what was judged before: only results that are new or changed are judged.

What is kept lies beside the index of all runs, or among the user's own files where nothing can be
written there. It can be made again: what cannot be read, or is of another labkit, is.
"""

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from labkit import __version__
from labkit.errors import LabkitError
from labkit.machine import account, records, workspace
from labkit.machine.places import HOME, PACKAGE, out
from labkit.pages.score_line import Evidence, Judgements, best, line_of
from labkit.pages.scorecard import Scorecard, card_of, gathered
from labkit.runs import looks
from labkit.runs.index import chosen, found, of_study

KINDS = (*workspace.REGISTRIES, "published")
CACHE = "__pycache__"
LARGE = 8
"""Times that the file may be larger than others of JSON."""
Stamp = Mapping[str, tuple[int, int]]
"""Size and time of change of each file."""


def kept_scorecard(*folders: Path, study: str = "") -> Scorecard:
    """The same as `scorecard`; what was judged before, and has not changed, is not judged again."""
    places = chosen(folders)
    paths = [*found(places)]
    key = hashlib.sha256("\n".join(map(str, places)).encode()).hexdigest()[:16]
    files = [folder / f"index/scores-{key}.json" for folder in (out(), account.cache())]
    before = {str(path): _stamp(path) for path in paths}
    judgements = _read(files, before)
    if _open(judgements, map(str, of_study(paths, study)), study):
        judgements = gathered(judgements, paths, study)
        _write(files, judgements, before)
    return card_of(judgements, study)


# Whether something is to be read, or to be judged.
def _open(judgements: Judgements, paths: Iterable[str], study: str) -> bool:
    studies_known = {*judgements.untested, *judgements.refused}
    if not studies_known or study not in ("", *studies_known):
        return True
    evidence_best = best(judgements.evidence.values(), [study] if study else studies_known)
    is_new = any(path not in judgements.evidence for path in paths)
    return is_new or any(evidence.lines is None for evidence in evidence_best)


# What was kept of results that are as they were; of another labkit nothing.
def _read(files: Iterable[Path], stamps: Mapping[str, Stamp]) -> Judgements:
    for file in files:
        with suppress(LabkitError, KeyError, TypeError, ValueError, AttributeError):
            document = records.read_json(file, large=LARGE)
            if document["code"] != _code():
                continue
            untested = {name: tuple(map(line_of, lines))
                        for name, lines in document["untested"].items()}  # fmt: skip
            evidence = {}
            for fields in document["evidence"]:
                path, was, lines = fields["path"], fields.pop("stamps"), fields["lines"]
                if path in stamps and was == _digest(stamps[path], _stamp(Path(fields["folder"]))):
                    fields["lines"] = lines and tuple(map(line_of, lines))
                    evidence[path] = Evidence(**fields)
            return Judgements(untested, document["refused"], evidence)
    return Judgements()


# All but results that changed while they were judged; a full disk keeps none.
def _write(files: Iterable[Path], scores: Judgements, before: Mapping[str, Stamp]) -> None:
    stamps = {path: _stamp(Path(path)) for path in scores.evidence}
    content = {
        "code": _code(),
        "untested": {name: [*map(asdict, lines)] for name, lines in scores.untested.items()},
        "refused": scores.refused,
        "evidence": [
            {**asdict(item), "stamps": _digest(stamps[path], _stamp(Path(item.folder)))}
            for path, item in scores.evidence.items()
            if _runs(stamps[path]) == _runs(before.get(path, {}))
        ],
    }  # fmt: skip
    for file in files:
        with suppress(OSError, ValueError):
            file.parent.mkdir(parents=True, exist_ok=True)
            records.write(file, records.pretty(content))
            return


# A judgement writes down that it looked.
def _runs(stamp: Stamp) -> Stamp:
    return {name: file for name, file in stamp.items() if name != looks.FILE}


# What cannot be listed is as what is not there: it is never as it was.
def _stamp(path: Path) -> Stamp:
    try:
        return _stats(path, records.files_below(path)) if path.is_dir() else _stats(path, [path])
    except OSError:
        return {}


def _stats(below: Path, files: Iterable[Path]) -> Stamp:
    sources = (file for file in files if CACHE not in file.parts)
    stats = {str(file.relative_to(below)): file.lstat() for file in sources}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in sorted(stats.items())}


def _digest(*stamps: Stamp) -> str:
    return hashlib.sha256(repr([[*stamp.items()] for stamp in stamps]).encode()).hexdigest()


# Verdicts come from code, claims, and the noise and controls of labs that were measured here.
def _code() -> str:
    own_folders = (folder for kind in KINDS for folder in workspace.folders(kind))
    noise = out() / "noise"
    noise_files = (file for part in ("study.json", "runs") for file in noise.glob(f"*/*/*/{part}"))
    folders = map(_stamp, (PACKAGE, HOME / "data" / "published", *own_folders))
    return f"{__version__} {_digest(*folders, _stats(noise, noise_files))}"
