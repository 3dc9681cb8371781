"""The command `labkit`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from labkit import __version__, studies
from labkit.errors import BadInput, BoxError, LabkitError, ResultsError
from labkit.results import Results, out, stored
from labkit.study import Study

TOP = """\
A performance lab for virtualization: run documented studies on real hosts, or on a lab in a
box on this machine, and have the documents' claims judged on what you measured.

  labkit doctor                what this machine can do, and what would bring the rest
  labkit studies               what can be asked
  labkit box up                bring the lab in a box up: real hosts on this machine
  labkit run lat_ping --quick  run a study there; table, notebook and report at the end
  labkit box down              take the box down; nothing is left behind
"""
EXITS = """\
exit codes: 0 it ran to its end; 1 it did not, and the message says why; 2 the command line
cannot be meant; 130 stopped by you, everything put back.
"""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    # A polite kill is a stop like Ctrl-C: settings go back first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    asked = _parser().parse_args(words)
    if not hasattr(asked, "call"):
        _parser().print_help()
        return 2
    try:
        return int(asked.call(asked) or 0)
    except LabkitError as failed:
        print(f"labkit: {failed}", file=sys.stderr)
        return failed.exit_code
    except KeyboardInterrupt:
        print("labkit: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "labkit",
        description=TOP,
        epilog=EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"labkit {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    _add_doctor(commands)
    _add_box(commands)
    _add_studies(commands)
    _add_run(commands)
    _add_report(commands)
    _command(commands, "demo", _demo, "see it all once: box up, a study, its report, box down")
    return parser


def _command(commands: Any, name: str, call: Any, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(call=call)
    return parser


def _json_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON for a machine to read")


def _print_json(whole: object) -> None:
    print(json.dumps(whole, indent=1, default=str, allow_nan=False))


# --- doctor ---------------------------------------------------------------------------------


def _add_doctor(commands: Any) -> None:
    parser = _command(commands, "doctor", _doctor, "say what this machine can do")
    parser.add_argument(
        "--packages", action="store_true", help="print only the system packages that are missing"
    )
    _json_flag(parser)


def _doctor(asked: argparse.Namespace) -> None:
    from labkit import doctor

    if asked.packages:
        print("\n".join(doctor.packages()))
    elif asked.json:
        _print_json(asdict(doctor.examine()))
    else:
        print(doctor.render(doctor.examine()))


# --- box ------------------------------------------------------------------------------------


def _add_box(commands: Any) -> None:
    text = "the lab in a box: real hosts on this machine"
    parser = _command(commands, "box", _box_down, text)
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for name, call, said in (
        ("up", _box_up, "bring the box up; quick when it is up already"),
        ("status", _box_status, "say which hosts the box has and whether they live"),
        ("down", _box_down, "end the box: processes, namespaces, links, files, all of it"),
    ):
        verb = _command(verbs, name, call, said)
        verb.add_argument("--name", default="lab", help="which box, where there are several (lab)")
        _json_flag(verb)


def _box_up(asked: argparse.Namespace) -> None:
    from labkit import box
    from labkit.terminal import progress_line

    with progress_line() as line:
        path = box.up(asked.name, line.say)
    _show_box(asked)
    if not asked.json:
        print(f"\nits hosts are described in {path}; `labkit box down` ends it")


def _box_status(asked: argparse.Namespace) -> int:
    return _show_box(asked)


def _box_down(asked: argparse.Namespace) -> None:
    from labkit import box
    from labkit.terminal import progress_line

    with progress_line() as line:
        box.down(asked.name, line.say)
    if asked.json:
        _print_json(asdict(box.status(asked.name)))
    else:
        print(f"box {asked.name} is down; nothing of it is left")


def _show_box(asked: argparse.Namespace) -> int:
    from labkit import box
    from labkit.terminal import table

    status = box.status(asked.name)
    if asked.json:
        _print_json(asdict(status))
    else:
        tier = f": tier {status.tier}" if status.tier else ""
        guests = f", guests by {status.accelerator}" if status.accelerator else ""
        print(f"box {status.name} is {status.state}{tier}{guests}")
        rows = [
            (h.role, h.control, h.address, h.interface, _cpus(h.cpus), "alive" if h.alive else "-")
            for h in status.hosts
        ]
        if rows:
            print()
            print(table(rows, ["role", "control", "data", "interface", "cpus", "state"]))
    return 0 if status.state == "up" else 1


def _cpus(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus))


# --- studies --------------------------------------------------------------------------------


def _add_studies(commands: Any) -> None:
    parser = _command(commands, "studies", _studies, "list what can be asked")
    parser.add_argument("--markdown", action="store_true", help="the table of the README")
    _json_flag(parser)


def _studies(asked: argparse.Namespace) -> None:
    from labkit import campaign
    from labkit.terminal import table

    found = [studies.find(name) for name in studies.names()]
    if asked.markdown:
        print(studies.markdown())
        return
    if not asked.json:
        rows = [(s.name, len(s.conditions), len(s.claims), s.title) for s in found]
        print(table(rows, ["study", "conditions", "claims", "what it asks"]))
        return
    _print_json(
        [
            {
                "name": s.name, "title": s.title, "question": s.question, "source": s.source,
                "conditions": [c.name for c in s.conditions],
                "claims": [claim.id for claim in s.claims],
                "notebook": str(campaign.notebook(s.name)),
                "parameters": campaign.parameters(campaign.notebook(s.name)),
            }
            for s in found
        ]
    )  # fmt: skip


# --- run and report -------------------------------------------------------------------------


def _add_run(commands: Any) -> None:
    parser = _command(commands, "run", _run, "run a study: verdicts, notebook, report")
    parser.add_argument("study", metavar="STUDY", help="a name that `labkit studies` lists")
    parser.add_argument("--quick", action="store_true", help="few short runs: see it work")
    parser.add_argument(
        "--where", default="box", metavar="PLACE",
        help="box (default), recorded, the lab.toml of your own hosts, or a folder of results",
    )  # fmt: skip
    parser.add_argument(
        "-p", "--parameter", action="append", default=[], metavar="NAME=VALUE",
        help="a parameter of the study's notebook, as often as needed",
    )  # fmt: skip
    parser.add_argument("--label", default="", help="names the results; the time of day if absent")
    _json_flag(parser)


def _run(asked: argparse.Namespace) -> None:
    study = studies.find(asked.study)
    given = dict(_pair(word) for word in asked.parameter)
    for name, value in {"where": asked.where, "label": asked.label or _now()}.items():
        given.setdefault(name, value)
    if asked.quick:
        given["quick"] = "true"
    _show_answer(study, given, asked)
    if given["where"] == "box" and not asked.json:
        print("box       stays up for the next run; `labkit box down` ends it")


def _show_answer(study: Study, given: Mapping[str, str], asked: argparse.Namespace) -> None:
    from labkit.answer import answer, rendered
    from labkit.terminal import progress_line

    with progress_line() as line:
        found = answer(study, given, line)
    if asked.json:
        _print_json(asdict(found))
    else:
        print(rendered(study, found))


def _add_report(commands: Any) -> None:
    parser = _command(commands, "report", _report, "write the report of results that exist")
    parser.add_argument(
        "run", metavar="RUN", help="a folder of results, one of its runs, or a study: its newest"
    )
    _json_flag(parser)


def _report(asked: argparse.Namespace) -> None:
    results = Results.open(_results_folder(asked.run))
    given = {"where": str(results.path), "label": str(results.asked["label"])}
    _show_answer(studies.find(results.study), given, asked)


def _results_folder(named: str) -> Path:
    path = Path(named).expanduser().resolve()
    for folder in (path, *path.parents[:2]):
        if (folder / "study.json").is_file():
            return folder
    if named.replace("-", "_") in studies.names():
        found = stored(named.replace("-", "_"))
        if not found:
            raise ResultsError(f"{named} has no results yet", hint=f"labkit run {named}")
        return found[-1]
    raise ResultsError(f"no results at {named}", hint=f"they are under {out() / 'results'}")


# --- demo -----------------------------------------------------------------------------------

NEXT = """\
Three things to try next:
  make lab                                      JupyterLab, open at notebooks/00-start-here.ipynb
  .venv/bin/labkit run lat_ping -p repeats=10   more blocks: the undecided claims get clearer
  .venv/bin/labkit doctor                       what this machine can do, and what it lacks"""


def _demo(asked: argparse.Namespace) -> None:
    from labkit import box

    was_up = box.status("lab").state == "up"
    place = "box" if was_up or _demo_box_up() else "recorded"
    asked.json, given = False, {"where": place, "label": _now()}
    try:
        _show_answer(studies.find("lat_ping"), given, asked)
    finally:
        if place == "box" and not was_up:
            box.down("lab")
    if place == "box":
        print("box       left up, as it was" if was_up else "box       down again, nothing left")
    print(f"\n{NEXT}")


# Before the notebook runs: here sudo can ask for a password, and everyone sees what comes up.
def _demo_box_up() -> bool:
    from labkit import box
    from labkit.terminal import progress_line

    try:
        with progress_line() as line:
            box.up("lab", line.say)
    except BoxError as refused:
        print(f"{refused}\n\nSo you see a recorded run; `labkit doctor` says more.\n")
        return False
    return True


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise BadInput(f"-p needs NAME=VALUE, not {word!r}")
    return name, value


def _now() -> str:
    return f"{datetime.now():%Y%m%d-%H%M%S}"


if __name__ == "__main__":
    sys.exit(main())
