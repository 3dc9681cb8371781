"""Faster starts of labkit's own processes; never in a process of the user, who may need it all."""

from __future__ import annotations

import sys

# jsonschema imports these only to check IRIs and durations, which nothing here does, and they cost
# 1 to 2.5 s and 0.1 s of every `import altair` and `import papermill`.
NEEDLESS = ("rfc3987_syntax", "isoduration")


def start_lean() -> None:
    """Leave out what other libraries import and nothing in labkit uses, in this whole process."""
    for name in NEEDLESS:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
