"""`python -m labkit.programs PLACE...`: the packages that these files and folders lack here."""

import os
import sys
from pathlib import Path

from labkit.programs.packages import absent, declared_under, names_of, this_system


def main(places: list[str]) -> None:
    """Print their names for this system, one a line; what is not free, with NON_FREE=yes alone."""
    missing = absent(declared_under(map(Path, places)))
    free = os.environ.get("NON_FREE") != "yes"
    print("\n".join(names_of(missing, this_system() or "debian", free)))


if __name__ == "__main__":
    main(sys.argv[1:])
