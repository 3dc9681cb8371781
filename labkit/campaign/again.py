"""Errors that may pass by themselves, so that a point is tried again."""

from labkit import errors
from labkit.errors import LabkitError

PASSING = (errors.Unreachable, errors.TimedOut, errors.Busy, errors.FleetFailed, errors.KernelDied)
LASTING = (errors.LoginRefused,)
"""Of those, the ones that a person has to help with."""
FIRST_PAUSE, MOST_PAUSE = 5.0, 300.0


def passes(kind: str) -> bool:
    """Whether an error of this class may be gone the next time."""
    found = getattr(errors, kind, None)
    if not (isinstance(found, type) and issubclass(found, LabkitError)):
        return False
    return issubclass(found, PASSING) and not issubclass(found, LASTING)


def pause(tries: int) -> float:
    """Seconds to wait before the next try, longer each time."""
    return float(min(FIRST_PAUSE * 3 ** max(tries - 1, 0), MOST_PAUSE))
