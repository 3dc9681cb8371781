"""Builds the site, with no network: notebooks on recorded runs, pages, reference; checks its links.

`make docs` calls it. What has not changed since is neither executed nor written again.
"""

from __future__ import annotations

from labkit.machine.lean import start_lean

# Processes that execute notebooks import this file, too.
start_lean()

import argparse
import sys
import time
from pathlib import Path

import checked
import executed
import gallery
import pictures
import staged
from sphinx.cmd.build import build_main

from labkit.errors import LabkitError
from labkit.machine.places import out

LEFT_OUT = "toc"
"""What Sphinx says of contents that name pages which a small site has not."""


def build(site: Path, stems: list[str], address: str, small: bool) -> int:
    """Build into `site`, and beside it what the next time begins with; returns an exit code."""
    site, parts = site.resolve(), site.resolve().with_name(f"{site.name}.parts")
    notebooks = executed.executed(stems, parts / "executed")
    staged.stage(parts / "source", notebooks, address, small)
    code = _sphinx(parts, site, LEFT_OUT if small else "")
    wrong = pictures.stale() + gallery.stale() + (checked.wrong(site) if not code else [])
    for said in wrong:
        print(f"error: {said}", file=sys.stderr)
    return code or bool(wrong)


def _sphinx(parts: Path, site: Path, unsaid: str) -> int:
    source = parts / "source"
    return build_main([
        "-b", "html", "-W", "--keep-going", "-c", str(staged.HERE), "-d", str(parts / "doctrees"),
        "-D", f"html_static_path={source / '_static'}", "-D", f"suppress_warnings={unsaid}",
        str(source), str(site),
    ])  # fmt: skip


def main() -> int:
    """Build as the command line asks."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--into", type=Path, default=out() / "site", help="the site's folder")
    asked.add_argument("--small", metavar="NOTEBOOK", choices=executed.NOTEBOOKS,
                       help="only this notebook, and a page of each other kind")  # fmt: skip
    asked.add_argument("--repository", metavar="URL", default="",
                       help="where it is published, for links to Binder")  # fmt: skip
    words = asked.parse_args()
    every = [stem for stem in executed.NOTEBOOKS if executed.recorded(stem)]
    began = time.monotonic()
    try:
        stems = [words.small] if words.small else every
        code = build(words.into, stems, words.repository, bool(words.small))
    except LabkitError as failed:
        print(f"error: {failed}", file=sys.stderr)
        return 1
    if not code:
        took = f"{time.monotonic() - began:.0f} s"
        print(f"The site is in {words.into} ({took}); open {words.into / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
