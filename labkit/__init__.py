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
    from labkit.studies import find as find_study
    from labkit.study import Study as Study
    from labkit.workload import Sample as Sample
    from labkit.workload import Workload as Workload
    from labkit.workloads.command import Command as Command

_HOMES = {
    "AtLeast": ("labkit.claims.forms", "AtLeast"),
    "Bound": ("labkit.claim", "Bound"),
    "Command": ("labkit.workloads.command", "Command"),
    "Comparing": ("labkit.running.comparing", "Comparing"),
    "Condition": ("labkit.condition", "Condition"),
    "EveryTest": ("labkit.claims.forms", "EveryTest"),
    "Host": ("labkit.host", "Host"),
    "Lab": ("labkit.lab", "Lab"),
    "LabkitError": ("labkit.errors", "LabkitError"),
    "Near": ("labkit.claims.forms", "Near"),
    "NotHere": ("labkit.claim", "NotHere"),
    "Order": ("labkit.claim", "Order"),
    "Rank": ("labkit.claims.forms", "Rank"),
    "Ratio": ("labkit.claim", "Ratio"),
    "Results": ("labkit.results", "Results"),
    "Sample": ("labkit.workload", "Sample"),
    "Shape": ("labkit.claim", "Shape"),
    "Side": ("labkit.running.comparing", "Side"),
    "Study": ("labkit.study", "Study"),
    "Workload": ("labkit.workload", "Workload"),
    "applied": ("labkit.changes.in_force", "applied"),
    "compare": ("labkit.claim", "compare"),
    "compare_sides": ("labkit.running.comparing", "compare_sides"),
    "find_study": ("labkit.studies", "find"),
    "judge": ("labkit.judging", "judge"),
    "open_lab": ("labkit.running.open_lab", "open_lab"),
    "run": ("labkit.running.loop", "run"),
    "study_results": ("labkit.running.open_lab", "study_results"),
}
__all__ = [
    "AtLeast",
    "Bound",
    "Command",
    "Comparing",
    "Condition",
    "EveryTest",
    "Host",
    "Lab",
    "LabkitError",
    "Near",
    "NotHere",
    "Order",
    "Rank",
    "Ratio",
    "Results",
    "Sample",
    "Shape",
    "Side",
    "Study",
    "Workload",
    "applied",
    "compare",
    "compare_sides",
    "find_study",
    "judge",
    "open_lab",
    "run",
    "study_results",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)


# What a user gets to see after `labkit.` and a tab.
def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__file__", "__path__", "__version__"]
