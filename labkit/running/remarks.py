"""Remarks on a study's results that their reader should know."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from labkit.gates import generator, watch
from labkit.machine.units import figure, shown
from labkit.results import Results, Run
from labkit.runs import integrity
from labkit.statistics import steady
from labkit.statistics.odd_blocks import OddBlock, TwoStates, change_points, odd_blocks, two_states
from labkit.statistics.percentiles import percentile
from labkit.statistics.pooled import Values
from labkit.study import Study
from labkit.workload import Workload
from labkit.workloads import _pairs as pairs

CLIENT = "client"
RATE = re.compile(r"(\d+(?:\.\d+)?) ([kMG])bit/s", re.ASCII)
MBIT = {"k": 1e-3, "M": 1.0, "G": 1e3}
FULL = 0.9
"""Of the link's rate: of 1538 bytes on a wire 1448 are data, which is 0.94."""
STREAM = "throughput"
Gates = Mapping[str, Mapping[str, str]]
Medians = Mapping[str, Mapping[int, float]]
CHANGE_RISK = 0.01
"""A change is named beside what is odd, so it has to be clear."""
FEWEST_RUNS = 10


def remarks(study: Study, results: Results) -> list[str]:
    """List what a reader should know of these results, a sentence each."""
    loops = [
        f"{load.name} waits for each answer before it asks again (a closed loop): while "
        "something stalls nothing is asked, so far percentiles look better than they are"
        for load in study.loads if load.loop == "closed"
    ]  # fmt: skip
    draft = [f"{study.name} is a draft: {study.draft}"] if study.draft else []
    blocks = study.blocks(results)
    gates = partial(generator.gates_of, loads=study.loads, asked=results.asked)
    odd = odd_runs(results, blocks, study.unit, gates)
    texts = [*integrity.remarks(results), *lab_faults(results), *link_limit(results)]
    spoilt = watch.remarks(results, study.loads)
    loads = [*_of_loads(study, results), *steady.told(blocks), *loops]
    return [*draft, *spoilt, *texts, *odd, *loads]


# By what each run printed; most loads have nothing to remark, and their texts are not read.
def _of_loads(study: Study, results: Results) -> list[str]:
    remark_of = {
        f"{load.name}.txt": load.remark
        for load in study.loads if type(load).remark is not Workload.remark
    }  # fmt: skip
    texts = {
        remark_of[name](part)
        for run in results.finished() if remark_of
        for name in remark_of.keys() & run.raw.keys()
        for part in pairs.texts(run.text(name)).values()
    }  # fmt: skip
    return sorted(texts - {""})


def lab_faults(results: Results) -> Iterator[str]:
    """Say again what `labkit doctor` fails and a run bears: one machine for two, or a wrong way.

    Hosts of a box are known.
    """
    lab, runs = results.asked.get("lab", {}), results.finished()
    if lab.get("tier", "hosts") != "hosts" or not runs:
        return
    hosts, interfaces = runs[-1].facts.get("hosts", {}), lab.get("interfaces", {})
    network = _network(hosts.get(CLIENT, {}))
    for role, facts in hosts.items():
        if role != CLIENT and "" not in network and _network(facts) == network:
            yield f"{CLIENT} and {role} are one machine: traffic between them never left it"
    for role, interface in interfaces.items():
        names = [name for name in hosts.get(role, {}) if name.startswith("nic ")]
        if names and f"nic {interface}" not in names:
            yield f"{role} has no interface {interface}, so settings of it were left out"
    for role, address in lab.get("elsewhere", {}).items():
        fault = f"{role}: {interfaces.get(role)} does not have the address {address}"
        yield f"{fault}, so test traffic may have passed another interface"


def _network(facts: Mapping[str, str]) -> tuple[str, str]:
    return facts.get("boot", ""), facts.get("network", "")


def link_limit(results: Results) -> list[str]:
    """Name the streams that were as fast as the link: such a rate says nothing of its cost."""
    links = results.asked.get("lab", {}).get("links", {})
    shown = {name: RATE.fullmatch(str(link.get("rate", ""))) for name, link in links.items()}
    rates = {name: float(rate[1]) * MBIT[rate[2]] for name, rate in shown.items() if rate}
    link, limit = min(rates.items(), key=lambda row: row[1], default=("", 0.0))
    conditions: dict[str, dict[str, None]] = {}
    for run in results.finished() if limit else ():
        for row in run.rows:
            is_stream = row["unit"] == "Mbit/s" and row["metric"].startswith(STREAM)
            if is_stream and row["p50"] >= FULL * limit:
                conditions.setdefault(row["metric"], {})[run.condition] = None
    return [
        f"{way} reaches the limit of the link of {link}, {limit:g} Mbit/s, in {', '.join(names)}: "
        "that hides its cost, so compare the CPU time per gigabyte"
        for way, names in sorted(conditions.items())
    ]


def odd_runs(
    results: Results,
    blocks_of: Mapping[str, Mapping[int, Values]],
    unit: str,
    gates: Callable[[Run], Gates] = lambda run: run.gates,
) -> list[str]:
    """List what lies apart in a study, a sentence each; nothing is dropped.

    `gates` says of a run, by role, what was wrong on its hosts.
    """
    medians = {
        name: {block: percentile(values, 50) for block, values in blocks.items()}
        for name, blocks in blocks_of.items()
    }
    runs = {(run.condition, run.block): run for run in results.finished()}
    states = [_states(two_state, unit) for two_state in two_states(medians)]
    odd = [_odd(block, run := runs[block.condition, block.block], gates(run), len(runs), unit)
           for block in odd_blocks(medians)]  # fmt: skip
    return [*states, *odd, *_changes(medians, [*runs.values()])]


def _states(states: TwoStates, unit: str) -> str:
    quick, slow = (
        f"{figure(value)} {shown(unit)} (blocks {', '.join(map(str, blocks))})"
        for value, blocks in (
            (states.quick_figure, states.quick),
            (states.slow_figure, states.slow),
        )
    )
    text = f"{states.condition}: these runs come from two states, of {quick} and {slow}"
    return f"{text}; more blocks of each are needed"


def _odd(block: OddBlock, run: Run, trips: Gates, runs: int, unit: str) -> str:
    gates = [f"{gate} on {role}" for role, names in trips.items() for gate in names]
    clock = f", at {run.started[11:16]}" if len(run.started) > 16 else ""
    saw = f"; its gates saw {', '.join(gates)}" if gates else "; no gate saw why"
    return (
        f"{block.condition}: block {block.block} lies apart, with a median of "
        f"{figure(block.figure)} {shown(unit)} where the others have {figure(block.usual)}; it was "
        f"run {run.order} of {runs}{clock}{saw}; nothing was dropped"
    )


# Each run beside the median of its condition, in the order of time.
def _changes(medians: Medians, runs: Sequence[Run]) -> list[str]:
    middles = {name: float(np.median([*blocks.values()])) for name, blocks in medians.items()}
    # What is nothing in most blocks is no measure of the others.
    usual = {name: middle for name, middle in middles.items() if middle > 0}
    in_order = sorted((run for run in runs if run.condition in usual), key=lambda run: run.order)
    in_order = [run for run in in_order if medians[run.condition][run.block] > 0]
    if len(in_order) < FEWEST_RUNS:
        return []
    over_usual = (medians[run.condition][run.block] / usual[run.condition] for run in in_order)
    texts = []
    for point in change_points([math.log(ratio) for ratio in over_usual], CHANGE_RISK):
        run, by = in_order[point.at], point.after - point.before
        way = f"{'slower' if by > 0 else 'quicker'} by about {100 * math.expm1(abs(by)):.2g} %"
        begin = f"from run {run.order} on ({run.condition}, block {run.block})"
        texts.append(f"{begin} all conditions were {way}: something changed in the lab")
    return texts
