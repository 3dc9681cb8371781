"""Lists of CPUs, as the kernel writes them: `0-3,6`."""

from collections.abc import Iterable

from labkit.errors import BadInput


def cpus_of(text: str) -> tuple[int, ...]:
    """The numbers in a list of CPUs."""
    pairs = [part.partition("-")[::2] for part in text.split(",")]
    numbers = {n for a, b in pairs for n in range(int(a), int(b or a) + 1)}
    if not numbers:
        raise BadInput(f"{text!r} is not a list of CPUs", hint="one looks like 0-3,6")
    return tuple(sorted(numbers))


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in order, neighbours drawn together."""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
