"""Papermill reruns: one notebook with its parameters, its progress seen, its end reported truly."""

import ast
import base64
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import papermill
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from nbformat.validator import ValidationError
from papermill.engines import NBClientEngine, papermill_engines
from traitlets.config import Config

from labkit import errors, studies
from labkit.errors import BadInput, KernelDied, LabkitError, ResultsError, Stopped, Unknown
from labkit.machine import own_place, workspace
from labkit.machine.places import HOME, first_file
from labkit.running import left_over, new_study, until_decided
from labkit.running.open_lab import knobs_among, shortened, usual, with_load
from labkit.runs.progress import PROGRESS_VARIABLE, Progress, ask_to_stop
from labkit.ssh.sudo import answering
from labkit.study import Study

Parameters = Mapping[str, Any]
LOOK_SECONDS = 0.2
WATCHING, PROGRESS = "labkit-run-", "progress.jsonl"
IDLE_SECONDS = 120
"""Seconds for a kernel to say that it is idle: papermill's 4 s are few on a busy machine."""
TITLE = re.compile(r"^(# .+)(?:\n|\Z)(?:\n.*\[Contents\].*\n)?", re.MULTILINE)
"""A title, and the line of links that may be below it."""
QUIET = "--IPKernelApp.log_level=CRITICAL"
"""A kernel is interrupted before it is ended, which one that is hardly idle calls an error."""
LEAN = "--IPKernelApp.exec_lines=from labkit.machine import lean; lean.start_lean(); del lean"
"""Option to leave out what nothing in a notebook of ours needs: this kernel is ours alone."""
FORESTALL_SECONDS = 2.0
NO_NOTEBOOK = (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError,
               ValidationError)  # fmt: skip
"""Errors of nbformat about a file that is not a notebook."""
EXAMPLES = {"int": ("a whole number", "3"), "float": ("a number", "0.5"),
            "bool": ("true or false", "true")}  # fmt: skip
"""Words for each kind of parameter, and an example of it."""
FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
READERS: Mapping[str, Callable[[str], object]] = {"int": int, "float": float}
LONGEST_TOLD = 40
PICTURE = re.compile(r"\]\((pictures/[\w./-]+\.svg)\)")
FEW_BLOCKS = 5
"""Blocks, for a study whose notebook does not say."""
CHOOSES = ("quick", "every", "repeats")
"""Parameters of notebooks that choose conditions and blocks."""
SECRET = ("password", "passwd", "secret", "token")


def notebook(study: str) -> Path:
    """The notebook that walks through a study; one that has none gets a draft of it."""
    return found(study) or new_study.draft(studies.find(study))


def found(study: str) -> Path | None:
    """The same; None if the study has none."""
    stem = study.replace("_", "-")
    files = [*(HOME / "notebooks").glob(f"[0-9][0-9]-{stem}.ipynb")]
    files += [folder / f"{stem}.ipynb" for folder in workspace.folders("notebooks")]
    return first_file(files)


def parameters(source: Path) -> dict[str, dict[str, Any]]:
    """The parameters of a notebook by name: type, default, what it is for."""
    try:
        nbformat.validate(nbformat.read(source, as_version=4))  # type: ignore[no-untyped-call]
        slots: dict[str, dict[str, Any]] = papermill.inspect_notebook(str(source))
    except NO_NOTEBOOK as error:
        hint = "`git diff` shows what has changed of it"
        raise BadInput(f"{source}: is not a notebook", said=str(error), hint=hint) from None
    return slots


def read_parameters(source: Path, words: Mapping[str, str]) -> dict[str, Any]:
    """Values for a notebook from NAME=VALUE words: an unknown name or a wrong type is refused."""
    parameters_of = parameters(source)
    values: dict[str, Any] = {}
    for name, text in words.items():
        kind = parameters_of[name]["inferred_type_name"] if name in parameters_of else ""
        # A number of a study, such as its token_ms, is no secret.
        if kind not in EXAMPLES and any(part in name.lower() for part in SECRET):
            problem = f"parameter {name}: a secret would be written into the notebook"
            raise BadInput(problem, hint="use a key file or an ssh-agent")
        if name not in parameters_of:
            raise Unknown("parameter", name, parameters_of)
        values[name] = _value(name, kind, text)
    return values


def _value(name: str, kind: str, word: str) -> object:
    if name == "repeats" and word.startswith(until_decided.WORDS):
        return word
    try:
        return FLAGS[word.lower()] if kind == "bool" else READERS.get(kind, str)(word)
    except (ValueError, KeyError):
        title, example = EXAMPLES.get(kind, (kind, ""))
        text = word if len(word) <= LONGEST_TOLD else f"{word[:LONGEST_TOLD]}..."
        problem = f"parameter {name} must be {title}, not {text!r}"
        raise BadInput(problem, hint=f"such as: -p {name}={example}") from None


def as_run(study: Study, chosen: Parameters, place: str) -> tuple[Study, int | str]:
    """The study that its notebook measures with these values, and its blocks.

    Values that are not given are the notebook's: its loads may last another time than the study's.
    """
    values = {**usual_values(study), **chosen}
    if values.get("quick"):
        study, values = shortened(study, place), {**values, **study.quick}
    elif not values.get("every"):
        study = usual(study, place)
    return with_load(study, **knobs_among(study, values)), values.get("repeats", FEW_BLOCKS)


def usual_values(study: Study) -> dict[str, Any]:
    """The values of a notebook's parameters, by name."""
    slots = parameters(notebook(study.name))
    values: dict[str, Any] = {}
    for name, slot in slots.items():
        # A person's notebook may compute one: then the study's own counts.
        with suppress(ValueError, SyntaxError):
            values[name] = ast.literal_eval(slot["default"])
    return {name: value for name, value in values.items() if value is not None}


@dataclass
class Rerun:
    """One notebook being executed by papermill; `source` is never changed."""

    source: Path
    target: Path
    values: Parameters
    results: Path | None = None
    """Folder of the study's runs, once the study has said so."""

    failure: BaseException | None = None
    keeps: tuple[int, ...] = ()
    """Descriptors that the kernel holds as long as it lives, such as those of locks."""

    temporary: Path | None = None
    """Folder of sockets and progress meanwhile; its path is short. The system's folder if None."""

    ended: threading.Event = field(default_factory=threading.Event)
    kernels: list[AsyncKernelManager] = field(default_factory=list)

    def execute(
        self, tell: Callable[[Progress], None], say: Callable[[str], None] = lambda _: None
    ) -> None:  # fmt: skip
        """Execute to the end; an interrupt lets the study put its settings back first.

        `say` hears what is done before the study has results, and `tell` how far it is then.
        """
        with own_place.temporary(WATCHING, self.temporary) as folder, answering():
            threading.Thread(target=self._papermill, args=(folder,), daemon=True).start()
            was_interrupted = self._watch(folder / PROGRESS, tell, say)
        if isinstance(self.failure, DeadKernelError):
            lines = left_over.put_back(str(self.values.get("where", "")), self.results)
            problem = "the kernel of the notebook died; labkit tried to put its changes back"
            hint = "`labkit journal HOST` has it all; the next run goes on from finished runs"
            raise KernelDied(problem, said="\n".join(lines), hint=hint)
        # So jupyter_client says that a kernel did not start: here because it was stopped meanwhile.
        if was_interrupted and isinstance(self.failure, RuntimeError):
            raise Stopped("stopped before anything was measured")
        if self.failure is not None:
            raise _explain(self.failure, self.target, was_interrupted)
        # Between two cells a kernel hears no interrupt.
        if was_interrupted:
            raise Stopped(f"stopped after {self.target.name} had finished", hint=f"{self.target}")

    # An event, as Thread.join that was interrupted takes a thread that lives for dead (3.11).
    def _watch(
        self, progress: Path, tell: Callable[[Progress], None], say: Callable[[str], None]
    ) -> bool:  # fmt: skip
        was_interrupted, count = False, 0
        while not self.ended.is_set():
            try:
                self.ended.wait(LOOK_SECONDS)
                count = self._tell_new(progress, count, tell, say)
            except KeyboardInterrupt:
                if was_interrupted:
                    raise Stopped("stopped at once; settings may still be in force") from None
                if not self._signal(signal.SIGINT):
                    # A kernel that is just being started would complain of the sockets that we
                    # take away.
                    until = time.monotonic() + FORESTALL_SECONDS
                    while not (self.ended.is_set() or self._pids() or time.monotonic() > until):
                        time.sleep(0.05)
                    self._signal(signal.SIGKILL)
                    raise Stopped("stopped before anything started") from None
                was_interrupted = True
                say("stopping: the run being made ends, then settings are put back")
                ask_to_stop(progress)
        self._tell_new(progress, count, tell, say)
        return was_interrupted

    def _tell_new(
        self, progress: Path, count: int, tell: Callable[[Progress], None],
        say: Callable[[str], None],
    ) -> int:  # fmt: skip
        lines = progress.read_text("utf-8").splitlines(keepends=True) if progress.exists() else []
        records_read = [json.loads(line) for line in lines if line.endswith("\n")]
        for line in records_read[count:]:
            if "step" in line:
                say(line["step"])
                continue
            self.results = Path(line["results"])
            tell(Progress(**line["progress"]))
        return len(records_read)

    # The kernel sees what Ctrl-C in a terminal would be, so the study unwinds its settings. It may
    # just have come to its end.
    def _signal(self, number: int) -> bool:
        pids = self._pids()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return bool(pids)

    def _pids(self) -> list[int]:
        pids = [getattr(kernel.provisioner, "pid", None) for kernel in self.kernels]
        return [pid for pid in pids if pid]

    # Sockets lie in a folder of their own: by default all kernels of a folder would share names.
    def _papermill(self, folder: Path) -> None:
        half = self.target.with_name(f".{self.target.name}")
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            papermill.execute_notebook(
                str(self.source), str(half), dict(self.values),
                kernel_name="python3", progress_bar=False, engine_name=AtTheEnd.__name__,
                kernel_manager_class=self._recorder(folder / PROGRESS), store_widget_state=False,
                iopub_timeout=IDLE_SECONDS, extra_arguments=[QUIET, _lean(self.keeps)],
                config=Config({"KernelManager": {
                    "transport": "ipc", "ip": str(folder / "kernel"),
                    "connection_file": str(folder / "kernel.json"),
                }}),
            )  # fmt: skip
            # papermill calls a cell "completed" also when its kernel died before it ran.
            code = _code(json.loads(half.read_text("utf-8")))
            if missing := sum(cell["execution_count"] is None for cell in code):
                raise LabkitError(f"{half}: {missing} of {len(code)} cells never ran")
        except BaseException as error:
            self.failure = error
        finally:
            died = isinstance(self.failure, DeadKernelError)
            _keep_whole(half, self.target, died, self.source.parent)
            self.ended.set()

    def _recorder(self, progress: Path) -> type[AsyncKernelManager]:
        kernels, keeps = self.kernels, self.keeps
        environment = {**os.environ, PROGRESS_VARIABLE: str(progress), "LABKIT_BATCH": "1"}

        class Recorded(AsyncKernelManager):
            """A kernel manager that can be found again, to be interrupted."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                kernels.append(self)

            async def start_kernel(self, **kwargs: Any) -> None:  # type: ignore[override]
                """Start as by default, with the descriptors that the kernel is to hold."""
                await super().start_kernel(pass_fds=keeps, env=environment, **kwargs)

        return Recorded


class AtTheEnd(NBClientEngine):  # type: ignore[misc]
    """Papermill's way to execute, that writes the notebook once: not before and after each cell."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, *args: Any, **kwargs: Any) -> None:
        """Execute; papermill itself writes what it came to, also when this fails."""
        nb_man.save, write = (lambda **_: None), nb_man.save
        try:
            super().execute_managed_notebook(nb_man, *args, **kwargs)
        finally:
            nb_man.save = write


papermill_engines.register(AtTheEnd.__name__, AtTheEnd)


# What the kernel starts in turn, such as a box that stays up, is not to hold them too.
def _lean(keeps: tuple[int, ...]) -> str:
    alone = "; ".join(f"os.set_inheritable({number}, False)" for number in keeps)
    return f"{LEAN}; import os; {alone}; del os" if keeps else LEAN


# What a full disk cut off shows nothing to anybody.
def _keep_whole(half: Path, target: Path, died: bool, beside: Path) -> None:
    with suppress(OSError, ValueError):
        document = json.loads(half.read_bytes())
        if _correct(document, died) | _attach(document, beside):
            half.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
        half.replace(target)
    with suppress(OSError):  # such as a file where its folder should be
        half.unlink(missing_ok=True)


# papermill (2.7) notes the cells after a dead kernel as completed, and no exception at all. The
# cell in which it died has a number if the kernel still came to say so.
def _correct(document: dict[str, Any], died: bool) -> bool:
    notes = [
        (note, cell) for cell in _code(document) if (note := cell["metadata"].get("papermill"))
    ]
    last = next((note for note, _ in reversed(notes) if note.get("start_time")), None)
    unsure = [note for note, cell in notes
              if cell["execution_count"] is None or (died and note is last)]  # fmt: skip
    wrong = [note for note in unsure if note.get("status") == "completed"]
    for text in wrong:
        text["status"] = "failed" if text.get("start_time") else "pending"
    if wrong:
        document["metadata"].setdefault("papermill", {})["exception"] = True
    return bool(wrong)


# Pictures lie beside the source, and what was executed lies elsewhere: they become a part of it.
def _attach(document: dict[str, Any], beside: Path) -> bool:
    changes = False
    for cell in document["cells"]:
        text = "".join(cell["source"])
        match = PICTURE.search(text) if cell["cell_type"] == "markdown" else None
        if match and (file := beside / match[1]).is_file():
            content = base64.b64encode(file.read_bytes()).decode()
            cell["attachments"] = {file.name: {"image/svg+xml": content}}
            cell["source"] = text.replace(match[1], f"attachment:{file.name}")
            changes = True
    return changes


def _code(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in document["cells"]
            if cell["cell_type"] == "code" and "".join(cell["source"])]  # fmt: skip


def _explain(failure: BaseException, target: Path, was_interrupted: bool) -> LabkitError:
    if isinstance(failure, LabkitError):
        return failure
    if isinstance(failure, OSError):
        hint = "is the disk full, or not yours? LABKIT_OUT names another folder"
        return ResultsError(f"cannot keep {target}", said=str(failure), hint=hint)
    name, value = getattr(failure, "ename", ""), getattr(failure, "evalue", "")
    if was_interrupted and name in ("Stopped", "KeyboardInterrupt", "CancelledError"):
        return Stopped("stopped; all settings are put back, and finished runs are kept")
    first, *others = (value or str(failure) or type(failure).__name__).splitlines()
    texts = [line.strip() for line in others]
    hints = [line.removeprefix("hint: ") for line in texts if line.startswith("hint: ")]
    if target.exists():
        hints.append(f"{target} shows how far it came")
    words = [line for line in texts if not line.startswith("hint: ")]
    # More lines than a tool's last words belong to what happened: a line for each condition.
    if len(words) > errors.LAST_WORDS:
        first, words = "\n  ".join([first, *words]), []
    kind = _kind(failure, name)
    if name and kind is LabkitError and name != "LabkitError":
        first = f"cell {getattr(failure, 'exec_count', '?')} of the notebook: {name}: {first}"
    problem = first if name else f"the notebook did not finish: {first}"
    return kind(problem, said="\n".join(words), hint="\n".join(hints))


# The class that the error had in the notebook, so that a caller can tell what may pass.
def _kind(failure: BaseException, name: str) -> type[LabkitError]:
    if isinstance(failure, DeadKernelError):
        return KernelDied
    kind = getattr(errors, name, None) if name != "Unknown" else BadInput
    if not (isinstance(kind, type) and issubclass(kind, LabkitError)) or kind is Stopped:
        return LabkitError
    return kind
