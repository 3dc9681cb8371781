"""Errors that may pass by themselves, so that a point is tried again."""

from labkit import errors
from labkit.errors import LabkitError

PASSING = (errors.Unreachable, errors.TimedOut, errors.Busy, errors.FleetFailed, errors.KernelDied)
LASTING = (errors.LoginRefused,)
"""Of those, the ones that a person has to help with."""
FIRST_PAUSE, MOST_PAUSE = 5.0, 300.0


def passes(kind: str) -> bool:
    """Whether an error of this class may be gone the next time."""
    kind_of_error = getattr(errors, kind, None)
    if not (isinstance(kind_of_error, type) and issubclass(kind_of_error, LabkitError)):
        return False
    return issubclass(kind_of_error, PASSING) and not issubclass(kind_of_error, LASTING)


def pause(tries: int) -> float:
    """Seconds to wait before the next try, longer each time."""
    return float(min(FIRST_PAUSE * 3 ** max(tries - 1, 0), MOST_PAUSE))
