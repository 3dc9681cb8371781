"""Hadoop's simulator of its scheduler: what a job takes at the least, and what it took."""

from pathlib import Path

import pytest
from brought import HERE, bring

from labkit.errors import BadInput, ResultsError
from labkit.workloads import _hadoop
from labkit.workloads.hadoop_scheduler import HadoopScheduler

CASE = Path(__file__).parents[1] / "cases/HadoopScheduler/nodes_32/stdout.txt"
TEXT = CASE.read_text("utf-8")


def test_tasks_take_turns_on_all_slots_but_that_of_the_jobs_master():
    load = HadoopScheduler(nodes=2, slots=3, maps=6, reduces=5, map_ms=1000, reduce_ms=2000)
    assert load.least == 2 * 1 + 1 * 2


@pytest.mark.parametrize("knobs, said", [
    ({"nodes": 0}, "nodes must be"), ({"map_ms": 0}, "map_ms must be"),
    ({"nodes": 1, "slots": 1}, "takes one slot"),
])  # fmt: skip
def test_what_no_cluster_can_do_is_refused_at_once(knobs, said):
    with pytest.raises(BadInput, match=said):
        HadoopScheduler(**knobs)


def test_times_of_no_job_or_of_two_or_of_one_that_went_back_are_refused():
    *head, line = TEXT.splitlines()
    fields = line.split(",")
    turned = ",".join([*fields[:3], fields[4], fields[3]])
    for lines in ([*head], [*head, line, line], [*head, turned]):
        with pytest.raises(ResultsError):
            HadoopScheduler.parse("\n".join(lines))


@pytest.mark.slow
@pytest.mark.when_changed("labkit/workloads/_hadoop.py", "labkit/workloads/hadoop_scheduler.py")
def test_a_simulated_job_takes_its_tasks_times_at_the_least_and_leaves_nothing(tmp_path):
    load = HadoopScheduler(nodes=300, slots=1, maps=299, reduces=10, map_ms=2000, reduce_ms=1000)
    bring(load)
    took = {s.metric: float(s.values[0]) for s in load.parse(load.run({"client": HERE}))}
    assert took["least time"] == 3 < took["elapsed time"] < 30
    assert not [*Path(_hadoop._place(HERE)).glob("simulated-*")]
