"""A chart as a file: SVG, PNG, or a page that is interactive without any network."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from labkit import record
from labkit.charts.look import bundle, svg
from labkit.errors import Unknown

VEGA = "6.4"
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.4.1.json"
# Only what stands in the page may run, and nothing may be fetched.
POLICY = (
    "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; "
    "script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:\">"
)


def save(chart: alt.TopLevelMixin, file: Path | str) -> Path:
    """Write a chart to a file, whose ending says how: .svg, .png or .html."""
    path = Path(file)
    if path.suffix not in _FORMS:
        raise Unknown("kind of picture", path.suffix or path.name, _FORMS)
    spec = bundle(chart.to_dict())[_V5]
    whole = _FORMS[path.suffix](spec)
    with record.keeping(f"{path}"), record.half(path) as half:
        half.write_bytes(whole)
        os.replace(half, path)
    return path


_V5 = "application/vnd.vegalite.v5+json"


def _png(spec: dict[str, Any]) -> bytes:
    return vl_convert.vegalite_to_png({"background": "white", **spec}, vl_version="5.8", scale=2)


def _html(spec: dict[str, Any]) -> bytes:
    # A title is the only text of ours that the page carries outside of the picture's JSON.
    page = vl_convert.vegalite_to_html({**spec, "$schema": SCHEMA}, vl_version=VEGA, bundle=True)
    return page.replace("<head>", f"<head>{POLICY}", 1).encode()


_FORMS: Mapping[str, Callable[[dict[str, Any]], bytes]] = {
    ".svg": lambda spec: svg(spec).encode(),
    ".png": _png,
    ".html": _html,
}
