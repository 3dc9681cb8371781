"""`labkit claims`: write down what a document claims, and check the file."""

from __future__ import annotations

import argparse
import os
import re
import sys
from difflib import SequenceMatcher
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.commands._verb import JSON, Verb, arg, tell
from labkit.errors import BadInput
from labkit.pages.terminal import paragraph, table

if TYPE_CHECKING:
    from labkit.claims.published import Published

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)
ALIKE = 0.88
"""Names of conditions that are so much alike may be one, misspelt."""


CLAIMS = Verb(
    "claims", "write down the claims of a document, and check them",
    ("new paper.toml --document 'A Paper' | a file of claims, with each form",
     "check paper.toml | its errors with line and claim, and what it needs"),
)  # fmt: skip


@CLAIMS.verb(
    "published/paper.toml --document 'A Paper' --url https://example.org/paper.pdf",
    arg("file", "FILE", "file to write, such as paper.toml", type=Path),
    arg("--document", "TEXT", "title of the document"),
    arg("--url", "URL", "where it can be read"),
)
def _new(args: argparse.Namespace) -> None:
    """Write a file of claims, and one for printed figures."""
    from string import Template

    from labkit.claims import printed
    from labkit.machine import records

    file: Path = args.file
    if file.suffix != ".toml" or not NAME.fullmatch(file.stem):
        raise BadInput(f"{file} is no name for claims", hint="such as my_paper.toml: a-z, 0-9, _")
    texts = {"document": args.document or "the document", "url": args.url}
    if odd := [text for text in texts.values() if re.search(r'["\\\n]', text)]:
        raise BadInput(f"{odd[0]!r} holds a quote, a backslash or a second line")
    skeleton = Path(__file__).parents[1] / "running/skeleton/claims.toml"
    words = {**texts, "stem": file.stem.replace("_", "-"), "file": os.path.relpath(file)}
    content = Template(skeleton.read_text("utf-8")).substitute(words)
    head = ",".join(printed.PrintedFigure.__dataclass_fields__) + "\n"
    for path, text in ((file, content), (file.with_suffix(".csv"), head)):
        if path.exists():
            raise BadInput(f"{path} is there already", hint="choose another name")
        with records.keeping(f"{path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            records.write(path, text.encode())
        print(f"wrote {path}")
    print(f"\nReplace the examples by the document's claims; then: labkit claims check {file}")


@CLAIMS.verb(
    "published/paper.toml | ids, names, units, forms and expressions",
    arg("file", "FILE", "file of claims", type=Path), JSON,
)  # fmt: skip
def _check(args: argparse.Namespace) -> int:
    """Check a file of claims; exit code 1 if one is wrong."""
    from labkit.claims import published
    from labkit.statistics.measurand import Measurand

    file: Path = args.file
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as odd:
        raise BadInput(f"{file}: cannot be read", said=str(odd)) from None
    wrong: list[BadInput] = []
    paper = published.read(text, file.stem, file.parent, wrong)
    names = sorted({Measurand.of(name).condition for name in paper.wanted()})
    rows = [
        {"claim": claim.id, "form": claim.form, "tests": list(map(_test, claim.comparisons()))}
        for claim in paper.claims
    ]
    doubts = [f"{a!r} and {b!r}: is one of them misspelt?" for a, b in combinations(names, 2)
              if _alike(a, b)]  # fmt: skip
    document = {
        "file": str(file), "claims": rows, "conditions": names, "wrong": [*map(str, wrong)],
        "doubts": doubts,
    }  # fmt: skip
    tell(args, document, lambda: _describe(document, paper))
    for error in () if args.json else wrong:
        print(f"labkit: {error}", file=sys.stderr)
    return int(bool(wrong))


def _test(comparison: Any) -> str:
    quantity, low, high = comparison.what, comparison.low, comparison.high
    ends = f"> {low:.4g}" if high == float("inf") else f"< {high:.4g}"
    if max(abs(low), abs(high)) < float("inf"):
        ends = f"{low:.4g} to {high:.4g}"
    return f"{quantity.shown}{f' ({quantity.metric})' if quantity.metric else ''}: {ends}"


def _describe(document: dict[str, Any], paper: Published) -> str:
    rows = [(row["claim"], row["form"], "; ".join(row["tests"]) or "cannot be tested")
            for row in document["claims"]]  # fmt: skip
    metrics = dict.fromkeys(metric for names_of in paper.wanted().values() for metric in names_of)
    units = ", ".join(f"{m} ({paper.units[m]})" if m in paper.units else m for m in metrics)
    good = f"{len(rows)} claim{'s' * (len(rows) != 1)} can be read"
    good += f", {len(document['wrong'])} cannot" if document["wrong"] else ""
    file = Path(document["file"])
    study = f" `labkit new study {file.stem}` makes them a study."
    parts = [
        table(rows, ["claim", "form", "what decides it"]),
        paragraph(f"conditions: {', '.join(document['conditions'])}"),
        paragraph(f"metrics: {units}"),
        "\n".join(paragraph(f"perhaps wrong: {doubt}") for doubt in document["doubts"]),
        paragraph(f"{file.name}: {good}.{'' if document['wrong'] else study}"),
    ]
    return "\n\n".join(part for part in parts if part)


# VM1 and VM2 are two, whatever they have in common.
def _alike(a: str, b: str) -> bool:
    plain = [re.sub(r"[\W_]+", "", name.lower()) for name in (a, b)]
    if plain[0] == plain[1]:
        return True
    if re.sub(r"\d", "", a) == re.sub(r"\d", "", b):
        return False
    return SequenceMatcher(None, a, b).ratio() >= ALIKE
