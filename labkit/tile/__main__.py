"""Fill the databases of tiles, serve their social application, have their users at work."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from labkit.errors import LabkitError
from labkit.shop.answers import Listening, Refused
from labkit.shop.filling import DATABASE as SHOPS
from labkit.shop.filling import TEMPLATE, awaited, fill_stock, loaded
from labkit.shop.ledger import checked
from labkit.shop.postgres import Postgres
from labkit.shop.web import serve
from labkit.tile import social
from labkit.tile.users import SIZE, Places, Stretch

SEED = 1
WAL = "32MB"
"""The most of its log that is on the volume, which a long run would fill otherwise."""


def main() -> int:
    """Do as the first word says; an error is up to three lines."""
    words = argparse.ArgumentParser(prog="tile", description=__doc__)
    words.add_argument("verb", choices=("fill", "drive", "serve"))
    for name in ("at", "pages"):
        words.add_argument(f"--{name}", default="")
    words.add_argument("--secret", type=Path, required=True)
    words.add_argument("--users", type=int, default=1)
    args = words.parse_args()
    at, secret = Listening.of(args.at), args.secret.read_text("utf-8").strip()
    try:
        if args.verb == "fill":
            fill(at, secret)
        elif args.verb == "serve":
            databases = [Postgres(at, secret, social.DATABASE) for _ in range(args.users)]
            serve(Listening.of(args.pages), databases, social.SocialPages)
        else:
            print(json.dumps(drive(at, secret, json.load(sys.stdin))))
    except (LabkitError, Refused, ConnectionError) as failed:
        print(failed, file=sys.stderr, flush=True)
        return 1
    return 0


def fill(at: Listening, secret: str) -> None:
    """Make both databases, of a server that is new; its stock becomes the shop."""
    awaited(at, secret)
    if not Postgres.exists(at, secret, TEMPLATE):
        fill_stock(at, secret, SIZE, SEED)
    with closing(Postgres(at, secret)) as first:
        first.query(f"ALTER DATABASE {TEMPLATE} RENAME TO {SHOPS}")
        first.query(f"ALTER SYSTEM SET max_wal_size = '{WAL}'")
    social.fill(at, secret)


def drive(at: Listening, secret: str, given: dict[str, Any]) -> dict[str, Any]:
    """Have users at work, and look afterwards whether the shop still has what they ordered."""
    stretch, places = Stretch(**given["stretch"]), Places(**given["places"])
    took, seconds = stretch.run(places)
    with closing(Postgres(at, secret, SHOPS)) as shop:
        found = checked(shop, loaded(shop), places.ledger)
    if not found.ok:
        raise LabkitError(f"the shop is not consistent after the run: {'; '.join(found.wrong)}")
    return {**given["stretch"], "seconds": seconds, "nominal": stretch.nominal, "took": took}


if __name__ == "__main__":
    sys.exit(main())
