"""A study as its notebook runs it: with the notebook's values, and the conditions of that run."""

import ast
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from labkit.running import notebook
from labkit.running.open_lab import knobs_among, shortened, usual, with_load
from labkit.study import Study

FEW_BLOCKS = 5
"""Blocks, for a study whose notebook does not say."""
CHOOSES = ("quick", "every", "repeats")
"""Parameters of notebooks that choose conditions and blocks."""


def as_run(study: Study, parameters: Mapping[str, Any], place: str) -> tuple[Study, int | str]:
    """The study that its notebook measures with these values, and its blocks.

    Values that are not given are the notebook's: its loads may last another time than the study's.
    """
    values = {**usual_values(study), **parameters}
    if values.get("quick"):
        study, values = shortened(study, place), {**values, **study.quick}
    elif not values.get("every"):
        study = usual(study, place)
    return with_load(study, **knobs_among(study, values)), values.get("repeats", FEW_BLOCKS)


def usual_values(study: Study) -> dict[str, Any]:
    """The values of a notebook's parameters, by name."""
    slots = notebook.parameters(notebook.notebook(study.name))
    values: dict[str, Any] = {}
    for name, slot in slots.items():
        # A person's notebook may compute one: then the study's own counts.
        with suppress(ValueError, SyntaxError):
            values[name] = ast.literal_eval(slot["default"])
    return {name: value for name, value in values.items() if value is not None}
