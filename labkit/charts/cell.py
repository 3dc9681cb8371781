"""Pictures as wide as their cell, under one line; the rest opens at a sign."""

from collections.abc import Iterable, Mapping
from typing import Any

from labkit.machine.units import capital

WIDTH, MOST_WIDTH = 540, 1100
"""Pixels of the whole picture, axes and legend included: as it is laid out at least, and at most.

What is narrower shows it smaller; at 350 pixels its letters are still 9 pixels high.
"""
SIGN = "about"
"""The layer of the sign."""
LINE = 76
"""Letters of the line below the title."""
BELOW = 30
"""Pixels from the lower end of the axis to the sign, which stands left of the axis' title."""

# A cell has no width before it is on the page, and a page tells of a change only if the window
# changes; so the picture also looks when the mouse comes to it.
_ROOM = "isFinite(containerSize()[0]) ? containerSize()[0] : 0"
_CELL = f"clamp({_ROOM}, {WIDTH}, {MOST_WIDTH})"
_FOLLOWING = [
    {"name": "room", "init": _CELL,
     "on": [{"events": "window:resize, view:pointerover", "update": _CELL}]},
    {"name": "width", "init": _CELL, "on": [{"events": {"signal": "room"}, "update": "room"}]},
]  # fmt: skip


def filling(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The picture that follows the width of its cell, under one line.

    The rest of what stands below its title opens when the mouse is over a sign.
    """
    picture = {**spec}
    meta = spec.get("usermeta", {})
    about = meta.get("about", {})
    text = ". ".join(filter(None, about.values()))
    if text:
        line = text if len(text) <= LINE else _fitting(meta.get("brief", ()))
        picture = {**picture, "title": {**spec["title"], "subtitle": [line] if line else []}}
    if len(text) > LINE:
        picture = _sign(picture, about)
    if spec.get("width") == WIDTH:
        picture["params"] = [*picture.get("params", ()), *_FOLLOWING]
    return picture


def _fitting(phrases: Iterable[str]) -> str:
    line = ""
    for phrase in filter(None, phrases):
        between = ". " if phrase[0].isupper() else "; "
        longer = f"{line}{between}{phrase}" if line else phrase
        line = longer if len(longer) <= LINE else line
    return capital(line)


def _sign(spec: dict[str, Any], about: Mapping[str, str]) -> dict[str, Any]:
    tips = [{"field": name, "type": "nominal"} for name, text in about.items() if text]
    sign = {
        "name": SIGN, "data": {"values": [about]},
        "mark": {"type": "text", "text": "details", "align": "right", "fontSize": 14, "x": -8,
                 "y": spec.get("height", 0) + BELOW, "style": "guide-label", "aria": False},
        "encoding": {"tooltip": tips},
    }  # fmt: skip
    inner = ("mark", "encoding", "transform", "params", "data")
    layers = spec.get("layer") or [{key: spec[key] for key in inner if key in spec}]
    outer = spec if "layer" in spec else {k: v for k, v in spec.items() if k not in inner}
    return {**outer, "layer": [*layers, sign]}
