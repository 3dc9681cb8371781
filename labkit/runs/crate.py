"""The description of a bundle as an RO-Crate 1.1: what archives and evaluators of artifacts read.

https://www.researchobject.org/ro-crate/specification/1.1/
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labkit import __version__
from labkit.results import Results, Run

FILE = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/crate/1.1"
LICENSE = "Not stated by the author of these measurements."
Entity = dict[str, Any]


def metadata(results: Results, name: str, manifest: str, document: Mapping[str, str]) -> str:
    """The text of the file; `document` is what was judged, its `name` and `url`.

    It is the same for the same results: its date is that of the newest run.
    """
    runs = results.runs()
    parts = [*_files(manifest), *map(_of_run, runs)]
    about = _documents(document)
    root = {
        "@id": "./", "@type": "Dataset", "name": f"{results.study}: {name}",
        "description": f"Measurements of {results.study} by labkit {__version__}: {len(runs)} runs",
        "datePublished": _times(runs)[1][:10], "license": LICENSE,
        "hasPart": _references(parts), "mentions": {"@id": "#measurement"},
        **({"citation": _references(about)} if about else {}),
    }  # fmt: skip
    graph = [_descriptor(), root, *parts, *about, *_software(), _action(runs)]
    content = {"@context": f"{PROFILE}/context", "@graph": graph}
    return json.dumps(content, indent=1)


def _descriptor() -> Entity:
    return {"@id": FILE, "@type": "CreativeWork", "conformsTo": {"@id": PROFILE},
            "about": {"@id": "./"}}  # fmt: skip


def _files(manifest: str) -> list[Entity]:
    about = {manifest: "each file of the bundle, with its SHA-256",
            "study.json": "what was asked, on which lab"}  # fmt: skip
    return [
        {"@id": file, "@type": "File", "name": file, "description": text,
         "encodingFormat": "application/json"}
        for file, text in about.items()
    ]  # fmt: skip


def _of_run(run: Run) -> Entity:
    about = f"{run.condition}, block {run.block}: {run.state}"
    return {"@id": f"runs/{run.path.name}/", "@type": "Dataset", "name": about,
            **({"dateCreated": run.started} if run.started else {})}  # fmt: skip


def _documents(document: Mapping[str, str]) -> list[Entity]:
    if not document.get("name"):
        return []
    url = document.get("url", "")
    return [{"@id": url or "#document", "@type": "CreativeWork", "name": document["name"]}]


def _software() -> list[Entity]:
    return [{"@id": "#labkit", "@type": "SoftwareApplication", "name": "labkit",
             "version": __version__}]  # fmt: skip


def _action(runs: Sequence[Run]) -> Entity:
    start, end = _times(runs)
    return {"@id": "#measurement", "@type": "CreateAction", "name": "The measurement",
            "instrument": {"@id": "#labkit"}, "startTime": start, "endTime": end,
            "object": {"@id": "study.json"}, "result": _references(map(_of_run, runs))}  # fmt: skip


def _references(entities: Iterable[Entity]) -> list[Entity]:
    return [{"@id": entity["@id"]} for entity in entities]


# What was imported says no times.
def _times(runs: Sequence[Run]) -> tuple[str, str]:
    starts = [run.started for run in runs if run.started] or ["1970-01-01T00:00:00+00:00"]
    return min(starts), max(starts)
