"""Keeps the pictures of the README current: each carries a key of what it was made from.

As a program it draws the chart again from the recorded run, and takes the picture of JupyterLab
that the browser test has made (`LABKIT_SCREENSHOTS=yes`).
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import tempfile
import zlib
from pathlib import Path

import altair as alt
import executed

from labkit import charts, find_study
from labkit.machine.places import HOME, out
from labkit.running.open_lab import note, stored_results

FOLDER = HOME / "notebooks" / "pictures"
CHART, SCREEN = FOLDER / "lat-ping.png", FOLDER / "jupyterlab.png"
SCREENSHOT = out() / "screenshots" / "01-lat-ping-see.png"
SECTION = ("## What we see", "## What the document says")
"""What is seen of the notebook in the picture of JupyterLab lies between these."""
AHEAD = 8 + 25
"""Bytes of a PNG file up to the end of its first chunk, which a text may follow."""
HINT = "LABKIT_SCREENSHOTS=yes make test, then .venv/bin/python notebooks/docs/site/pictures.py"


def chart() -> alt.LayerChart:
    """The ladder of one guest at a time, from the recorded run."""
    study = find_study("lat_ping")
    results = stored_results(study.name, "recorded")
    blocks = {name: one for name, one in study.blocks(results).items() if "[" not in name}
    return charts.ladder(blocks, study.published(), note=note(results))


def keys() -> dict[Path, str]:
    """For each picture a short text that changes with what the picture shows."""
    drawn = _drawn(chart())
    cells = json.loads(executed.NOTEBOOKS["01-lat-ping"].read_text("utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells)
    seen = text.partition(SECTION[0])[2].partition(SECTION[1])[0]
    return {CHART: _key(drawn), SCREEN: _key(drawn + seen)}


# Four digits are more than can be seen, and fewer than libraries differ in.
def _drawn(picture: alt.LayerChart) -> str:
    rows = charts.frame(picture).rows()
    cells = (
        f"{cell:.4g}" if isinstance(cell, float) else f"{cell}" for row in rows for cell in row
    )
    return "\n".join([*charts.COLOURS, *cells])


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def stale() -> list[str]:
    """Sentences on pictures that show what is no longer so, and on those that no page shows."""
    shown = "".join(page.read_text("utf-8") for page in _pages())
    unseen = [file for file in FOLDER.iterdir() if f"pictures/{file.name}" not in shown]
    old = [file for file, key in keys().items() if _text(key) not in file.read_bytes()]
    said = [f"{file.relative_to(HOME)} is out of date; hint: {HINT}" for file in old]
    return said + [f"no page shows {file.relative_to(HOME)}" for file in unseen]


def _pages() -> list[Path]:
    notebooks = HOME / "notebooks"
    return [HOME / "README.md", *notebooks.glob("docs/**/*.md"), *notebooks.glob("*.ipynb")]


def _text(key: str) -> bytes:
    body = b"tEXtlabkit\0" + key.encode()
    return struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))


def _keep(file: Path, picture: bytes) -> None:
    file.write_bytes(picture[:AHEAD] + _text(keys()[file]) + picture[AHEAD:])
    print(f"wrote {file}")


def main() -> int:
    """Make the pictures again."""
    with tempfile.TemporaryDirectory() as folder:
        _keep(CHART, charts.save(chart(), Path(folder) / "chart.png").read_bytes())
    if not SCREENSHOT.exists():
        print(f"no {SCREENSHOT}; hint: {HINT}", file=sys.stderr)
        return 1
    _keep(SCREEN, SCREENSHOT.read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
