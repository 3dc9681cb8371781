"""`labkit scorecard`: every claim of every document, on every lab that measured it."""

import argparse
from dataclasses import replace
from pathlib import Path

from labkit.commands._verb import JSON, arg, busy, flag, tell, verb
from labkit.errors import ResultsError

VERDICTS = ("holds", "contradicted", "same", "undecided", "not-testable")


@verb(
    " | this machine's results, and the recorded ones",
    "--all | the answer of each study, and all claims",
    "--study lat_ping | the answer and the claims of one study, judged or not",
    "--document docker | claims and figures of documents with this in their titles",
    "--verdict contradicted | contradicted claims",
    "--disputed | claims that documents contradict",
    "--csv card.csv | a row for each claim, with the figure measured here",
    "out/results --html >card.html | of one folder, as a page",
    arg("folders", "FOLDER", "results or bundles (default: this machine's and the recorded ones)",
        nargs="*", type=Path),
    arg("--study", "NAME", "only the claims of this study"),
    arg("--document", "TEXT", "only documents with this in their titles"),
    arg("--verdict", "WORD", f"only claims with this verdict: {', '.join(VERDICTS)}",
        choices=VERDICTS),
    arg("--margin", "SHARE", type=float,
        text="what is too close to matter: 0.02 is 2 %% (default: the lab's noise, or 5 %%)"),
    flag("--all", "all claims, not one screen"), flag("--disputed", "only claims in dispute"),
    (flag("--markdown", "print the whole table as Markdown"),
     flag("--html", "print an HTML page with links to the results"),
     arg("--csv", "FILE", "write a row for each claim", type=Path), JSON),
)  # fmt: skip
def _scorecard(args: argparse.Namespace) -> None:
    """Show how documents and studies do, on one screen."""
    from labkit.pages.kept_scores import kept_scorecard
    from labkit.pages.score_line import WORDS
    from labkit.pages.scorecard import scorecard

    study = args.study.replace("-", "_")
    with busy("judging results that are new"):
        if args.margin is None:
            whole_card = kept_scorecard(*args.folders, study=study)
        else:
            whole_card = scorecard(*args.folders, study=study, margin=args.margin)
    verdict = dict(zip(VERDICTS, WORDS, strict=True)).get(args.verdict, "")
    card = whole_card.only(args.document, verdict, args.disputed)
    empty = not whole_card.unread and not any(line.evidence for line in whole_card.lines)
    if args.folders and not args.study and empty:
        names = ", ".join(map(str, args.folders))
        raise ResultsError(
            f"no results in {names} that are judged",
            hint="`labkit results list` lists all results; give --study to judge imports",
        )
    if args.csv:
        from labkit.charts.export import save_csv

        print(f"{save_csv(card.frame(), args.csv)}: {len(card.lines)} claims")
    elif args.markdown:
        print(card.markdown(), end="")
    elif args.html:
        from labkit.pages.scorecard import page

        print(page(card), end="")
    else:
        shown = replace(card, narrowed=card.narrowed or args.all)
        tell(args, [line.told() for line in card.lines], shown.text)
