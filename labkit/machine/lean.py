"""Faster starts of labkit's own processes; never in a process of the user, who may need it all.

`python -m labkit.machine.lean MODULE WORD...` runs a module of ours so.
"""

import atexit
import gc
import sys

# jsonschema imports these only to check IRIs and durations, which nothing here does, and they cost
# 1 to 3.5 s and 0.1 s of every `import altair` and `import papermill`.
NEEDLESS = ("rfc3987_syntax", "isoduration")
# What is imported stays to the end. To look for garbage in it costs a quarter of all imports.
SELDOM = (200_000, 20, 50)


def start_lean() -> None:
    """Leave out what nothing in labkit uses, and seldom look for garbage, in this whole process."""
    for name in NEEDLESS:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    gc.set_threshold(*SELDOM)
    atexit.register(gc.freeze)


def words(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of ours in a process of its own."""
    return [sys.executable, "-m", "labkit.machine.lean", module, *arguments]


if __name__ == "__main__":
    import runpy

    start_lean()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
