"""labkit: run documented virtualization studies on real hosts, and judge their claims.

The names that a notebook or a script needs are here; each is imported when it is first used. Start
with `study.py`, which names all the others; `notebooks/docs/own-script.md` shows scripts.
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from labkit.changes.in_force import applied as applied
    from labkit.claim import Bound as Bound
    from labkit.claim import NotHere as NotHere
    from labkit.claim import Order as Order
    from labkit.claim import Ratio as Ratio
    from labkit.claim import Shape as Shape
    from labkit.claim import compare as compare
    from labkit.claims.forms import AtLeast as AtLeast
    from labkit.claims.forms import EveryTest as EveryTest
    from labkit.claims.forms import Near as Near
    from labkit.claims.forms import Rank as Rank
    from labkit.condition import Condition as Condition
    from labkit.errors import LabkitError as LabkitError
    from labkit.host import Host as Host
    from labkit.judging import judge as judge
    from labkit.lab import Lab as Lab
    from labkit.results import Results as Results
    from labkit.running.comparing import Comparing as Comparing
    from labkit.running.comparing import Side as Side
    from labkit.running.comparing import compare_sides as compare_sides
    from labkit.running.loop import run as run
    from labkit.running.open_lab import open_lab as open_lab
    from labkit.running.open_lab import study_results as study_results
    from labkit.studies import find
    from labkit.study import Study as Study
    from labkit.workload import Sample as Sample
    from labkit.workload import Workload as Workload
    from labkit.workloads.command import Command as Command

    find_study = find

_HOMES = {
    "labkit.changes.in_force": ("applied",),
    "labkit.claim": ("Bound", "NotHere", "Order", "Ratio", "Shape", "compare"),
    "labkit.claims.forms": ("AtLeast", "EveryTest", "Near", "Rank"),
    "labkit.condition": ("Condition",),
    "labkit.errors": ("LabkitError",),
    "labkit.host": ("Host",),
    "labkit.judging": ("judge",),
    "labkit.lab": ("Lab",),
    "labkit.results": ("Results",),
    "labkit.running.comparing": ("Comparing", "Side", "compare_sides"),
    "labkit.running.loop": ("run",),
    "labkit.running.open_lab": ("open_lab", "study_results"),
    "labkit.studies": ("find_study",),
    "labkit.study": ("Study",),
    "labkit.workload": ("Sample", "Workload"),
    "labkit.workloads.command": ("Command",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    module = importlib.import_module(_HOME_OF[name])
    return getattr(module, "find" if name == "find_study" else name)


# What a user gets to see after `labkit.` and a tab.
def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__file__", "__path__", "__version__"]
