"""A chart as a file: SVG, PNG, or a page that is interactive without any network."""

from __future__ import annotations

import functools
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import vl_convert

from labkit.charts.look import svg, whole
from labkit.errors import Unknown
from labkit.machine import account, records
from labkit.machine.scripts import beside

if TYPE_CHECKING:
    import polars as pl

VEGA = "6.4"
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.4.1.json"


def policy(nonce: str) -> str:
    """Only our own scripts run, and nothing is fetched: whatever a host said stays text."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}' 'unsafe-eval'; "
        "style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
    )


def quoted(spec: Any) -> str:
    """JSON that can stand in a page: nothing in it ends a script."""
    return json.dumps(spec, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", " ")


@functools.cache
def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; it takes two seconds to make, so it is kept."""
    path = account.cache() / f"vega-{VEGA}-of-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeError):
        return path.read_text("utf-8")
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VEGA)
    script = script.replace("</script", "<\\/script")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with records.half(path) as half:
            half.write_text(script, "utf-8")
            os.replace(half, path)
    return script


def save(chart: alt.TopLevelMixin, file: Path | str) -> Path:
    """Write a chart to a file, as its ending says: .svg, .png, .html, or .csv for its numbers."""
    path = Path(file)
    if path.suffix == ".csv":
        return save_csv(frame(chart), path)
    if path.suffix not in _FORMS:
        raise Unknown("kind of picture", path.suffix or path.name, [*_FORMS, ".csv"])
    return _write(path, _FORMS[path.suffix](whole(chart.to_dict())))


def save_csv(rows: pl.DataFrame, file: Path | str) -> Path:
    """Write a data frame as CSV, whole or not at all; a list in a cell becomes words."""
    import polars as pl

    lists = [name for name, kind in rows.schema.items() if kind.is_nested()]
    plain = rows.with_columns(pl.col(name).cast(pl.List(pl.String)).list.join("; ")
                              for name in lists)  # fmt: skip
    return _write(Path(file), plain.write_csv().encode())


def frame(chart: alt.TopLevelMixin) -> pl.DataFrame:
    """A polars data frame of what a chart shows: its marks in `layer`, and the rows of each."""
    import polars as pl

    spec = chart.to_dict()
    rows = []
    for part in _layers(spec):
        mark, data = part["mark"], part["data"]
        layer = mark if isinstance(mark, str) else mark["type"]
        drawn = data.get("values") or spec.get("datasets", {}).get(data.get("name"), [])
        rows += [{"layer": layer, **row} for row in drawn]
    return pl.DataFrame(rows, infer_schema_length=None, strict=False)


# A picture is one layer, or has several, of which each has rows of its own.
def _layers(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for part in spec.get("layer", [spec]):
        if "layer" in part:
            yield from _layers(part)
        else:
            yield {"data": spec.get("data", {}), **part}


def _write(path: Path, content: bytes) -> Path:
    with records.keeping(f"{path}"), records.half(path) as half:
        half.write_bytes(content)
        os.replace(half, path)
    return path


def _html(spec: dict[str, Any]) -> bytes:
    nonce = secrets.token_urlsafe(16)
    page = beside(__file__, "picture.html").format(
        policy=policy(nonce), nonce=nonce, vega=vega(), title=escape(str(spec["description"])),
        spec=quoted({**spec, "$schema": SCHEMA}),
    )  # fmt: skip
    return page.encode()


_FORMS: Mapping[str, Callable[[dict[str, Any]], bytes]] = {
    ".svg": lambda spec: svg(spec).encode(),
    ".png": lambda spec: vl_convert.vegalite_to_png(
        {"background": "white", **spec}, vl_version="5.8", scale=2
    ),
    ".html": _html,
}
