"""The common parts of the command line's verbs."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from labkit.commands._colour import painted
from labkit.errors import WIDE, BadInput, nearest
from labkit.machine.units import capital
from labkit.pages.terminal import ProgressLine

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
        others = [f"; {action.help}" for action in self._actions
                  if action.dest == "words" and action.nargs == "*"]  # fmt: skip
        self.error(f"unrecognized arguments: {' '.join(words)}{near}{''.join(others)}")


def _nearest(word: str, words: Sequence[str]) -> str:
    near = nearest(word, words)
    return f"; did you mean {near!r}?" if near else ""


Call = Callable[[argparse.Namespace], int | None]


@dataclass(frozen=True)
class Argument:
    """An argument of a verb: its names, and what else argparse wants to know of it."""

    names: Sequence[str]
    options: Mapping[str, Any]


def arg(names: str, metavar: str, text: str, **options: Any) -> Argument:
    """An argument, or with names such as `-o --output` an option; without a default it is empty."""
    if names.startswith("-") or options.get("nargs") == "?":
        none = None if "type" in options else ""
        options = {"default": [] if options.get("action") == "append" else none, **options}
    return Argument(names.split(), {"metavar": metavar, "help": text, **options})


def flag(name: str, text: str, **options: Any) -> Argument:
    """An option without a value."""
    return Argument([name], {"help": text, "action": "store_true", **options})


JSON = flag("--json", "print JSON for a machine to read")
LABEL = arg("--label", "NAME", "name of the results (default: the time of day)")
PARAMETERS = arg(
    "-p --parameter", "NAME=VALUE", "set a parameter of the study's notebook; repeatable",
    action="append",
)  # fmt: skip
"""`given_in` reads them."""

Part = str | Argument | tuple[Argument, ...]


@dataclass(frozen=True)
class Verb:
    """A verb of the command line, or with verbs of its own what these have in common.

    An example among its parts is what stands behind `labkit NAME`, a bar, and what it does. Of a
    tuple of arguments, only one can be used at a time.
    """

    name: str
    text: str
    parts: Sequence[Part]
    call: Call | None = None
    about: str = ""
    kind: str = "verb"
    """Word for its own verbs."""
    verbs: list[Verb] = field(default_factory=list)

    def verb(self, *parts: Part) -> Callable[[Call], Verb]:
        """Make a verb below this one of the function that carries it out."""

        def decorated(call: Call) -> Verb:
            self.verbs.append(verb(*parts)(call))
            return self.verbs[-1]

        return decorated

    def add_to(self, parsers: Any) -> None:
        """Have argparse know it."""
        about = self.about or f"{capital(self.text)}."
        parser = parsers.add_parser(
            self.name, help=self.text, description=about, formatter_class=Help
        )
        examples = [part for part in self.parts if isinstance(part, str)]
        parser.epilog = _format_examples(parser.prog, examples)
        parser.set_defaults(call=self.call, parser=parser)
        for part in (part for part in self.parts if not isinstance(part, str)):
            is_group = isinstance(part, tuple)
            into = parser.add_mutually_exclusive_group() if is_group else parser
            for one in part if isinstance(part, tuple) else (part,):
                into.add_argument(*one.names, **one.options)
        if self.verbs:
            metavar = self.kind.upper()
            inner = parser.add_subparsers(title=f"{self.kind}s", metavar=metavar, required=True)
            for one_verb in self.verbs:
                one_verb.add_to(inner)


def verb(*parts: Part) -> Callable[[Call], Verb]:
    """Make a verb of the function that carries it out: its docstring is the help."""

    def decorated(call: Call) -> Verb:
        about = inspect.getdoc(call) or ""
        head = about.partition("\n")[0].rstrip(".")
        text = f"{head[:1].lower()}{head[1:]}"
        return Verb(call.__name__.strip("_"), text, parts, call, about)

    return decorated


def _format_examples(prog: str, examples: Sequence[str]) -> str:
    parts = [example.partition(" | ")[::2] for example in examples]
    lines = [(f"{prog} {words}".rstrip(), text) for words, text in parts]
    width = max(len(line) for line, _ in lines)
    # Each explanation goes below its command where the columns are too few.
    if max(len(text) for _, text in lines) + width + 4 <= WIDE:
        return "\n".join(["examples:", *(f"  {line:<{width}}  {text}" for line, text in lines)])
    return "\n".join(["examples:", *(f"  {line}\n      {text}" for line, text in lines)])


def given_in(words: Sequence[str]) -> dict[str, str]:
    """The parameters in words such as `repeats=10`."""
    for word in words:
        name, equals, _ = word.partition("=")
        if not equals or not name:
            raise BadInput(f"-p needs NAME=VALUE, not {word!r}", hint="such as: -p repeats=10")
    return dict(word.split("=", 1) for word in words)


def tell(args: argparse.Namespace, document: object, text: Callable[[], str]) -> None:
    """Print an answer: as JSON without NaN if a machine asked for it, else as text, in colour."""
    if args.json:
        print(json.dumps(document, indent=1, default=str, allow_nan=False))
    else:
        print(painted(text()))


def at_least_one(word: str) -> int:
    """A count that an option takes."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, not {word!r}")
    return int(word)


def show_answer(study: Study, parameters: Mapping[str, str], args: argparse.Namespace) -> Answer:
    """Run a study, or read its results, and say what came out."""
    from labkit.pages.answer import answer, rendered

    with ProgressLine() as line:
        line.say("getting ready")
        reply = answer(study, parameters, line.say, line.tell)
    tell(args, asdict(reply), lambda: rendered(study, reply))
    return reply


@contextmanager
def busy(activity: str) -> Iterator[None]:
    """Say on a terminal what takes its time, and how long so far; scripts see nothing."""
    if not sys.stderr.isatty():
        yield
        return
    with ProgressLine() as line:
        line.say(activity)
        yield


def now() -> str:
    """A label for results: the time of day."""
    return f"{datetime.now():%Y%m%d-%H%M%S}"
