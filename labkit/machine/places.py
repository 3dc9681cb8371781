"""The places of labkit's own files and of measurements."""

import os
from collections.abc import Iterable
from pathlib import Path

from labkit.machine import account

PACKAGE = Path(__file__).resolve().parents[1]
HOME = PACKAGE if (PACKAGE / "notebooks").is_dir() else PACKAGE.parent
"""Notebooks and data lie here: in the checkout, or in the package where that was installed."""


def first_file(files: Iterable[Path]) -> Path | None:
    """The first of these files that is there."""
    return next((file for file in files if file.is_file()), None)


def out() -> Path:
    """Return the folder for all measurements: $LABKIT_OUT, or `out` in the checkout.

    An installed package has no checkout; then it is `labkit-out` in the user's home.
    """
    usual = HOME / "out" if HOME != PACKAGE else account.home() / "labkit-out"
    return Path(os.path.expanduser(os.environ.get("LABKIT_OUT") or usual)).resolve()
