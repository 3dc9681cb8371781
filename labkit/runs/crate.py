"""The description of a bundle as an RO-Crate 1.1: what archives and evaluators of artifacts read.

https://www.researchobject.org/ro-crate/specification/1.1/
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from labkit import __version__
from labkit.results import Results

FILE = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/crate/1.1"
LICENSE = "Not stated by the author of these measurements."
NO_TIME = "1970-01-01T00:00:00+00:00"
Entity = dict[str, Any]


def metadata(results: Results, name: str, manifest: str, document: Mapping[str, str]) -> str:
    """The text of the file; `document` is what was judged, its `name` and `url`.

    It is the same for the same results: its date is that of the newest run.
    """
    runs = results.runs()
    starts = [run.started for run in runs if run.started] or [NO_TIME]  # imports say no times
    about = {manifest: "each file of the bundle, with its SHA-256",
             "study.json": "what was asked, on which lab"}  # fmt: skip
    files = [
        {"@id": file, "@type": "File", "name": file, "description": text,
         "encodingFormat": "application/json"}
        for file, text in about.items()
    ]  # fmt: skip
    measurements = [
        {"@id": f"runs/{run.path.name}/", "@type": "Dataset",
         "name": f"{run.condition}, block {run.block}: {run.state}",
         **({"dateCreated": run.started} if run.started else {})}
        for run in runs
    ]  # fmt: skip
    documents = [
        {"@id": document.get("url") or "#document", "@type": "CreativeWork", "name": text}
        for text in (document.get("name"),) if text
    ]  # fmt: skip
    head = {"@id": FILE, "@type": "CreativeWork", "conformsTo": {"@id": PROFILE},
            "about": {"@id": "./"}}  # fmt: skip
    root = {
        "@id": "./", "@type": "Dataset", "name": f"{results.study}: {name}",
        "description": f"Measurements of {results.study} by labkit {__version__}: {len(runs)} runs",
        "datePublished": max(starts)[:10], "license": LICENSE,
        "hasPart": _references([*files, *measurements]), "mentions": {"@id": "#measurement"},
        **({"citation": _references(documents)} if documents else {}),
    }  # fmt: skip
    software = {"@id": "#labkit", "@type": "SoftwareApplication", "name": "labkit",
                "version": __version__}  # fmt: skip
    action = {"@id": "#measurement", "@type": "CreateAction", "name": "The measurement",
              "instrument": {"@id": "#labkit"}, "startTime": min(starts), "endTime": max(starts),
              "object": {"@id": "study.json"}, "result": _references(measurements)}  # fmt: skip
    graph = [head, root, *files, *measurements, *documents, software, action]
    return json.dumps({"@context": f"{PROFILE}/context", "@graph": graph}, indent=1)


def _references(entities: Iterable[Entity]) -> list[Entity]:
    return [{"@id": entity["@id"]} for entity in entities]
