"""`labkit completion`: a shell completes verbs, studies and flags with TAB."""

import argparse
import shlex
from collections.abc import Iterator

from labkit.commands._verb import arg, verb
from labkit.machine.scripts import beside

PROGRAMS = ("bash",)

SCRIPT = beside(__file__, "completion.sh")
START = {"bash": "", "zsh": "autoload -Uz bashcompinit && bashcompinit"}


@verb(
    'bash | in ~/.bashrc: eval "$(labkit completion bash)"',
    'zsh | in ~/.zshrc: eval "$(labkit completion zsh)"',
    arg("shell", "SHELL", "bash or zsh", choices=[*START]),
)
def _completion(args: argparse.Namespace) -> None:
    """Print what makes a shell complete labkit's words."""
    parsers: dict[str, argparse.ArgumentParser] = args.verbs
    words = {"labkit": parsers, **{name: _words(parser) for name, parser in parsers.items()}}
    rows = [
        f"_labkit_words[{name}]={shlex.quote(' '.join(flags))}" for name, flags in words.items()
    ]
    print(START[args.shell], "declare -A _labkit_words", *rows, SCRIPT, sep="\n")


# What may come after a verb: flags, kinds, and studies where one is asked for.
def _words(parser: argparse.ArgumentParser) -> Iterator[str]:
    from labkit import studies

    for action in parser._actions:
        yield from action.option_strings
        yield from map(str, action.choices or ())
        if str(action.metavar).startswith("STUDY"):
            yield from studies.names()
