"""Several pairs of hosts under the same load at once: its clients start together."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from labkit.errors import BadInput, HostError, LabkitError, ResultsError, absence
from labkit.fleet.fleet import AT_ONCE, Fleet
from labkit.host import Host
from labkit.machine import workspace
from labkit.machine.stopping import together
from labkit.programs.packages import installable, package_of
from labkit.results import Run
from labkit.setting import Words
from labkit.workload import Beside, Sample, Workload
from labkit.workloads._lasting import lasts

MARK = "=== labkit: the pair of "
# The mark comes first: it is found by far faster than the beginnings of lines.
HEAD = re.compile(rf"{re.escape(MARK)}(?<=^{re.escape(MARK)})(.+)$\n", re.MULTILINE)
FIND = 'for program; do command -v "$program" > /dev/null || echo "$program"; done'
Pair = Mapping[str, Host]


def run(
    workload: Workload, pairs: Mapping[str, Pair], key: str = "", beside: Beside | None = None,
    run_name: str = "",
) -> str:  # fmt: skip
    """Run once between the hosts of every pair at the same time; of several, what each printed.

    Every pair is named after its server. All servers are ready before the first client starts.
    With the `key` of a run, what lasts between a single pair is a job that can be found again.
    """
    if len(pairs) == 1:
        (hosts,) = pairs.values()
        if beside:
            return workload.during(hosts, beside)
        job_key = key if lasts(workload) else ""
        return workload.run(
            {role: replace(h, measuring=job_key, run_name=run_name) for role, h in hosts.items()}
        )
    if beside:
        raise BadInput(f"{workload.name}: nothing can happen beside several pairs of hosts")
    with ExitStack() as servers:
        commands = dict(zip(pairs, _ready(workload, pairs, servers), strict=True))
        clients = Fleet({name: hosts[workload.roles[0]] for name, hosts in pairs.items()})
        with clients.together(commands) as line:
            outcomes = line.go(seconds=30 + 3 * workload.seconds).check().items()
    return "".join(f"{MARK}{name}\n{outcome.stdout.decode('utf-8', 'replace')}"
                   for name, outcome in outcomes)  # fmt: skip


# All servers at the same time; those that are ready end with the stack, should another fail.
def _ready(workload: Workload, pairs: Mapping[str, Pair], exits: ExitStack) -> list[Words]:
    contexts = [workload.asking(hosts) for hosts in pairs.values()]
    try:
        return together(exits.enter_context, contexts, AT_ONCE)
    except KeyboardInterrupt:  # some may still be on their way: they end with the connection
        for pair in pairs.values():
            Fleet(pair).close()
        raise


def texts(text: str) -> dict[str, str]:
    """The text of each pair by its name; a single pair has no name, and the whole text."""
    before, *parts = HEAD.split(text)
    if not parts:
        return {"": text}
    if before:
        raise ResultsError("there is text before that of the first pair", said=before[:200])
    return dict(zip(parts[::2], parts[1::2], strict=True))


def parse(workload: Workload, text: str) -> list[Sample]:
    """Read what `run` returned: of each metric the values of all pairs.

    They come one pair after another, but what adds up is added.
    """
    with blaming(workload, "parse"):
        read = [_insist_samples(workload.parse(part)) for part in texts(text).values()]
    if len(read) == 1:
        return read[0]
    by_metric: dict[str, list[Sample]] = {}
    for sample in (sample for samples in read for sample in samples):
        by_metric.setdefault(sample.metric, []).append(sample)
    return [
        Sample(metric, all_of[0].unit, _pool(all_of), sum(part.lost for part in all_of),
               all_of[0].adds)
        for metric, all_of in by_metric.items()
    ]  # fmt: skip


@contextmanager
def blaming(workload: Workload, method: str) -> Iterator[None]:
    """Refuse what a workload's own code raises, with its file, its line and its name."""
    try:
        yield
    except (LabkitError, OSError):
        raise
    except Exception as error:
        code = inspect.unwrap(getattr(type(workload), method)).__code__
        at = workspace.place_of(error, Path(code.co_filename), code.co_firstlineno)
        problem = f"{at}: {type(workload).__name__}: its `{method}` failed"
        raise ResultsError(problem, said=f"{type(error).__name__}: {error}") from error


def _insist_samples(samples: object) -> list[Sample]:
    if isinstance(samples, list) and all(isinstance(sample, Sample) for sample in samples):
        return samples
    raise TypeError(f"it returns a list of Sample, not {samples!r}"[:200])


# What adds up is of as many moments as all of them have.
def _pool(all_of: Sequence[Sample]) -> npt.NDArray[np.float64]:
    values = [sample.values for sample in all_of]
    if not all_of[0].adds:
        return np.concatenate(values)
    count = min(map(len, values))
    total: npt.NDArray[np.float64] = np.array([value[:count] for value in values]).sum(axis=0)
    return total


def samples(workload: Workload, run: Run) -> list[Sample]:
    """Parse the kept text of a run; again only if its file has changed.

    A study asks for it several times: for its charts, its verdicts, its remarks.
    """
    name = f"{workload.name}.txt"
    try:
        state = (run.path / "raw" / f"{name}.gz").stat()
    except OSError:  # the run itself says best what is wrong
        return parse(workload, run.text(name))
    stamp = state.st_ino, state.st_size, state.st_mtime_ns, run.raw.get(name, "")
    return list(_samples(_Entry(repr(workload), run.path, stamp, workload, run)))


@dataclass(frozen=True)
class _Entry:
    # What sets one text apart from another, and, not compared, what it is read by.
    load: str
    run_path: Path
    seen: tuple[int, int, int, str]
    workload: Workload = field(compare=False)
    run: Run = field(compare=False)


@lru_cache(maxsize=256)
def _samples(source: _Entry) -> tuple[Sample, ...]:
    samples_read = parse(source.workload, source.run.text(f"{source.workload.name}.txt"))
    for sample in samples_read:
        sample.values.flags.writeable = False
    return tuple(samples_read)


def absent(pairs_of: Iterable[tuple[Workload, Mapping[str, Pair]]]) -> dict[str, list[str]]:
    """The programs of these workloads that their hosts lack, by host: each is asked once."""
    hosts: dict[str, Host] = {}
    tools: dict[str, dict[str, None]] = {}
    for workload, pairs in pairs_of:
        for host, programs in _needs(workload, pairs):
            hosts[host.name] = host
            tools.setdefault(host.name, {}).update(dict.fromkeys(programs))
    lacks = together(lambda name: _absent(hosts[name], tools[name]), hosts, AT_ONCE)
    return dict(zip(hosts, lacks, strict=True))


def missing_tool(
    workload: Workload, pairs: Mapping[str, Pair], absent: Mapping[str, Sequence[str]],
    prepare: str = "",
) -> str:  # fmt: skip
    """A program that the workload needs and one of the hosts lacks, and how to get it; or "".

    Where a package brings it, `prepare` is the command that does so over SSH.
    """
    for host, programs in _needs(workload, pairs):
        for program in (name for name in absent[host.name] if name in programs):
            remedy = workload.tools[program]
            if prepare and installable(program):
                remedy = prepare + (" --non-free" if package_of(program).source else "")
            return absence(program, host.name, remedy)
    return ""


def _needs(workload: Workload, pairs: Mapping[str, Pair]) -> Iterator[tuple[Host, list[str]]]:
    """Each host with the programs that its role calls there."""
    roles = dict.fromkeys(role for pair in pairs.values() for role in pair)
    for role in (role for role in roles if role not in workload.beside):
        tools = [tool for tool in workload.tools if workload.only.get(tool, role) == role]
        hosts = {pair[role].name: pair[role] for pair in pairs.values()}
        yield from ((host, tools) for host in hosts.values() if tools)


def _absent(host: Host, tools: Iterable[str]) -> list[str]:
    with suppress(HostError):  # one that is off now says so when it is needed
        return host.check("sh", "-c", FIND, "sh", *tools).split()
    return []
