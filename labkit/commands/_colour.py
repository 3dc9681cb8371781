"""Colour for words that decide, where a terminal shows it and `NO_COLOR` is not set."""

import os
import re
import sys

GREEN, RED, YELLOW, DIM = "32", "31", "33", "2"
COLOURS = {
    "holds": GREEN, "agrees": GREEN, "ok": GREEN,
    "contradicted": RED, "differs": RED, "XX": RED,
    "undecided": YELLOW, "unclear": YELLOW, "!!": YELLOW,
    "not testable here": DIM, "--": DIM,
}  # fmt: skip
WORDS = "|".join(map(re.escape, COLOURS))
CELL = re.compile(
    rf"(?<=  )(?:{WORDS})(?=  |$)|(?<=\d: )(?:{WORDS})$|^(?:ok|!!|XX|--)(?=  )", re.MULTILINE
)
"""A word alone in a column of a table, after a claim's name, or a sign that begins a line."""


def painted(text: str) -> str:
    """The text, with colour if standard output is a terminal."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    if plain or not sys.stdout.isatty():
        return text
    return CELL.sub(lambda word: f"\033[{COLOURS[word[0]]}m{word[0]}\033[0m", text)
