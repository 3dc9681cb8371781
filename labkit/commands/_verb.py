"""The common parts of the command line's verbs."""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from labkit.commands._colour import painted
from labkit.errors import WIDE, BadInput, nearest
from labkit.machine.units import capital

if TYPE_CHECKING:
    from labkit.pages.answer import Answer
    from labkit.study import Study


class Help(argparse.HelpFormatter):
    """Paragraphs are filled, and lines that are set in (examples) stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.strip().split("\n\n")
        paragraphs = [
            part if "\n  " in f"\n{part}" else textwrap.fill(part, width) for part in parts
        ]
        return textwrap.indent("\n\n".join(paragraphs), indent)


class Parser(argparse.ArgumentParser):
    """A parser that answers a word it does not know with the nearest one that it does."""

    others = ""
    """A remark on options that it hands on to a program, if there are such."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end with exit code 2."""
        match = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        if match:
            message += _nearest(match[1], re.findall(r"[\w-]+", match[2]))
        super().error(message)

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Refuse words that nothing asks for."""
        flags = [flag for action in self._actions for flag in action.option_strings]
        word = words[0].split("=")[0]
        near = "" if word in flags else _nearest(word, flags)
        addition = f"; {self.others}" if self.others else ""
        self.error(f"unrecognized arguments: {' '.join(words)}{near}{addition}")


def _nearest(word: str, words: Sequence[str]) -> str:
    near = nearest(word, words)
    return f"; did you mean {near!r}?" if near else ""


def verb(verbs: Any, name: str, call: Any, text: str, *examples: str) -> Parser:
    """One verb, which `call` carries out; the caller adds its arguments.

    An example is what stands behind `labkit NAME`, a bar, and what it does.
    """
    parser: Parser = verbs.add_parser(
        name, help=text, description=f"{capital(text)}.", formatter_class=Help
    )
    if examples:
        parser.epilog = _format_examples(parser.prog, examples)
    parser.set_defaults(call=call, parser=parser)
    return parser


def _format_examples(prog: str, examples: Sequence[str]) -> str:
    parts = [example.partition(" | ")[::2] for example in examples]
    lines = [(f"{prog} {words}".rstrip(), text) for words, text in parts]
    width = max(len(line) for line, _ in lines)
    # Each explanation goes below its command where the columns are too few.
    if max(len(text) for _, text in lines) + width + 4 <= WIDE:
        return "\n".join(["examples:", *(f"  {line:<{width}}  {text}" for line, text in lines)])
    return "\n".join(["examples:", *(f"  {line}\n      {text}" for line, text in lines)])


def json_flag(parser: argparse._ActionsContainer) -> None:
    """The flag that every verb with an answer has; in a group, if it has other forms too."""
    parser.add_argument("--json", action="store_true", help="print JSON for a machine to read")


def parameters_flag(parser: argparse.ArgumentParser) -> None:
    """The flag that sets parameters of a study's notebook; `given_in` reads them."""
    parser.add_argument(
        "-p", "--parameter", action="append", default=[], metavar="NAME=VALUE",
        help="set a parameter of the study's notebook; repeatable",
    )  # fmt: skip


def given_in(words: Sequence[str]) -> dict[str, str]:
    """The parameters in words such as `repeats=10`."""
    for word in words:
        name, equals, _ = word.partition("=")
        if not equals or not name:
            raise BadInput(f"-p needs NAME=VALUE, not {word!r}", hint="such as: -p repeats=10")
    return dict(word.split("=", 1) for word in words)


def print_json(document: object) -> None:
    """JSON that any reader takes: no NaN."""
    print(json.dumps(document, indent=1, default=str, allow_nan=False))


def label_flag(parser: argparse.ArgumentParser) -> None:
    """The flag of every verb that makes results."""
    text = "name of the results (default: the time of day)"
    parser.add_argument("--label", default="", metavar="NAME", help=text)


def at_least_one(word: str) -> int:
    """A count that an option takes."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, not {word!r}")
    return int(word)


def show_answer(study: Study, parameters: Mapping[str, str], args: argparse.Namespace) -> Answer:
    """Run a study, or read its results, and say what came out."""
    from labkit.pages.answer import answer, rendered
    from labkit.pages.terminal import progress_line

    with progress_line() as line:
        line.say("getting ready")
        reply = answer(study, parameters, line)
    if args.json:
        print_json(asdict(reply))
    else:
        print(painted(rendered(study, reply)))
    return reply


@contextmanager
def busy(activity: str) -> Iterator[None]:
    """Say on a terminal what takes its time, and how long so far; scripts see nothing."""
    from labkit.pages.terminal import progress_line

    if not sys.stderr.isatty():
        yield
        return
    with progress_line() as line:
        line.say(activity)
        yield


def now() -> str:
    """A label for results: the time of day."""
    return f"{datetime.now():%Y%m%d-%H%M%S}"
