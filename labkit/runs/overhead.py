"""Cost of a study beside its measuring: changing settings, and everything else around a run."""

from dataclasses import dataclass

from labkit.results import Results


@dataclass(frozen=True)
class Overhead:
    """Seconds of the finished runs: all of them, those of their workloads, those of the changes.

    What is done once, before the first run and after the last, is not in them.
    """

    seconds: float
    measured: float
    changes: float

    @property
    def share(self) -> float:
        """Time on top of the measuring, divided by the measuring."""
        return (self.seconds - self.measured) / self.measured if self.measured else 0.0

    @property
    def own(self) -> float:
        """The same without the changes that the study asks for, such as a guest that restarts."""
        remainder = self.seconds - self.measured - self.changes
        return remainder / self.measured if self.measured else 0.0

    def __str__(self) -> str:
        if not self.measured:
            return "nothing was measured"
        parts = f"{self.share - self.own:.1%} settings, {self.own:.1%} else"
        time = f"measured {self.measured:.0f} s of {self.seconds:.0f} s"
        return f"{time}: {self.share:.1%} on top ({parts})"


def overhead(results: Results) -> Overhead:
    """The cost of all finished runs of these results."""
    runs = results.finished()
    names = ("seconds", "measured_seconds", "changes_seconds")
    return Overhead(*(sum(getattr(run, name) for run in runs) for name in names))
