"""`labkit campaign compare`: what became worse from one campaign to the next, to gate a change."""

import argparse
from typing import Any

from labkit.commands._verb import busy, json_flag, print_json, verb


def add_compare(inner: Any) -> None:
    """Add it below `labkit campaign`."""
    parser = verb(
        inner, "compare", _compare, "find regressions and improvements from A to B",
        "monday tuesday | exit code 1 if a figure is clearly worse, or a point is missing",
        "monday tuesday --junit >changes.xml | as test reports of continuous integration",
    )  # fmt: skip
    parser.add_argument("a", metavar="A", help="the old campaign: its name, file or folder")
    parser.add_argument("b", metavar="B", help="the new campaign, given like A")
    parser.add_argument(
        "--least", type=_share, default=None, metavar="SHARE",
        help="smallest change that matters (default 0.05: 5 %% of the old figure)",
    )  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print Markdown, for a comment")
    form.add_argument("--junit", action="store_true", help="print JUnit XML")
    json_flag(form)


def _share(word: str) -> float:
    try:
        share = float(word)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"must be a share from 0 to 1, not {word!r}")
    return share


def _compare(args: argparse.Namespace) -> int:
    from labkit.campaign import compare_forms
    from labkit.campaign.compare import compare
    from labkit.campaign.folder import named_campaign
    from labkit.verdict import MARGIN

    with busy("comparing all points"):
        margin = MARGIN if args.least is None else args.least
        result = compare(named_campaign(args.a), named_campaign(args.b), margin)
    if args.json:
        print_json(compare_forms.plain(result))
    elif args.junit:
        print(compare_forms.junit(result))
    else:
        print(compare_forms.markdown(result) if args.markdown else compare_forms.text(result))
    return 0 if result.passed else 1
