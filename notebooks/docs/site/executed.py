"""Executes notebooks on recorded runs, each again only when something that it reads has changed."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from labkit import studies
from labkit.machine.places import HOME
from labkit.running.notebook import Rerun

READ = ("labkit", "data", ".ci/requirements.txt")
"""Whatever changes in these may change what a notebook shows."""
NOTEBOOKS = {path.stem: path for path in sorted((HOME / "notebooks").glob("[0-9]*.ipynb"))}


def study(stem: str) -> str:
    """The name of the study that a notebook is about, if it is about one."""
    name = stem[3:].replace("-", "_")
    return name if name in studies.names() else ""


def recorded(stem: str) -> bool:
    """Whether there is anything to show to somebody without a lab."""
    name = study(stem)
    return not name or (HOME / "data/recorded" / f"{name}.labkit").is_file()


def executed(stems: Sequence[str], folder: Path) -> dict[str, Path]:
    """The executed notebooks by their stems; `folder` keeps them for the next time."""
    folder.mkdir(parents=True, exist_ok=True)
    targets = {stem: folder / f"{stem}.{_key(NOTEBOOKS[stem])}.ipynb" for stem in stems}
    missing = [stem for stem, target in targets.items() if not target.exists()]
    for stem in missing:
        for outdated in folder.glob(f"{stem}.*.ipynb"):
            outdated.unlink()
    _execute({stem: targets[stem] for stem in missing})
    return targets


def _execute(targets: dict[str, Path]) -> None:
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        jobs = {pool.submit(_run, stem, target): stem for stem, target in targets.items()}
        try:
            for number, job in enumerate(as_completed(jobs), 1):
                took = f"{jobs[job]} took {job.result():.0f} s"
                print(f"notebook {number} of {len(jobs)}: {took}", file=sys.stderr, flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


# One that failed lies beside it under another name, for whoever looks for the reason.
def _run(stem: str, target: Path) -> float:
    began = time.monotonic()
    half = target.with_suffix(".half.ipynb")
    Rerun(NOTEBOOKS[stem], half, {"where": "recorded"}).execute(lambda _: None)
    half.replace(target)
    return time.monotonic() - began


def _key(notebook: Path) -> str:
    return hashlib.sha256(_read() + notebook.read_bytes()).hexdigest()[:16]


@cache
def _read() -> bytes:
    found = hashlib.sha256()
    for file in _files():
        found.update(f"{file}\n".encode() + hashlib.sha256(file.read_bytes()).digest())
    return found.digest()


def _files() -> Iterator[Path]:
    for name in READ:
        place = HOME / name
        inside = (file for file in place.rglob("*") if "__pycache__" not in file.parts)
        yield from sorted(filter(Path.is_file, inside)) if place.is_dir() else [place]
