"""labkit: run documented virtualization studies on real hosts, and judge their claims.

The names that a notebook or a script needs are here; each is imported when it is first used. Start
with `study.py`, which names all the others; `notebooks/docs/own-script.md` shows scripts.
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from labkit.changes.in_force import applied
    from labkit.claim import Bound, NotHere, Order, Ratio, Shape, compare
    from labkit.claims.forms import AtLeast, EveryTest, Near, Rank
    from labkit.condition import Condition
    from labkit.errors import LabkitError
    from labkit.host import Host
    from labkit.judging import judge
    from labkit.lab import Lab
    from labkit.results import Results
    from labkit.running.comparing import Comparing, Side, compare_sides
    from labkit.running.loop import run
    from labkit.running.open_lab import open_lab, study_results
    from labkit.studies import find as find_study
    from labkit.study import Study
    from labkit.workload import Sample, Workload
    from labkit.workloads.command import Command

__all__ = [
    "AtLeast", "Bound", "Command", "Comparing", "Condition", "EveryTest", "Host", "Lab",
    "LabkitError", "Near", "NotHere", "Order", "Rank", "Ratio", "Results", "Sample", "Shape",
    "Side", "Study", "Workload", "applied", "compare", "compare_sides", "find_study", "judge",
    "open_lab", "run", "study_results",
]  # fmt: skip
_HOMES = {
    "changes.in_force": "applied", "claim": "Bound NotHere Order Ratio Shape compare",
    "claims.forms": "AtLeast EveryTest Near Rank", "condition": "Condition",
    "errors": "LabkitError", "host": "Host", "judging": "judge", "lab": "Lab",
    "results": "Results", "running.comparing": "Comparing Side compare_sides",
    "running.loop": "run", "running.open_lab": "open_lab study_results",
    "studies": "find_study", "study": "Study", "workload": "Sample Workload",
    "workloads.command": "Command",
}  # fmt: skip
_HOME_OF = {name: f"labkit.{home}" for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    module = importlib.import_module(_HOME_OF[name])
    return getattr(module, "find" if name == "find_study" else name)


# What a user gets to see after `labkit.` and a tab.
def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__file__", "__path__", "__version__"]
