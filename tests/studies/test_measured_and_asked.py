"""Statements of the documents that a study measures are claims: both outcomes, by the study."""

import pytest
from planted import judged, results

from labkit import studies
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE

# Study and claim, the tier, levels that hold and that contradict.
MEASURED = [
    ("lat_feature", "lat-feature-08", "root", [200, 400], [400, 200]),
    ("lat_feature", "lat-feature-09", "root", [90, 100], [100, 90]),
    ("lat_feature", "lat-feature-10", "root", [70, 100], [100, 70]),
    ("docker_redis", "docker-redis-09", "hosts", [10, 99_000], [10, 80_000]),
    ("monster_vmotion", "monster-vmotion-13", "hosts", [2, 2], [1, 2]),
    ("monster_vmotion", "monster-vmotion-14", "root", [4, 5, 1, 6, 1, 14], [5, 4, 1, 6, 1, 14]),
    ("monster_vmotion", "monster-vmotion-14", "root", [4, 5, 1, 6, 1, 14], [4, 5, 3, 6, 1, 1]),
]


@pytest.mark.parametrize("study, claim, tier, holding, failing", MEASURED)
def test_what_is_measured_is_asked_and_may_come_out_either_way(
    tmp_path, study, claim, tier, holding, failing
):
    found = studies.find(study)
    for levels, wanted in ((holding, HOLDS), (failing, CONTRADICTED)):
        assert judged(found, claim, levels, results(tmp_path, tier)).verdict == wanted


@pytest.mark.parametrize("cpus, wanted", [("1", NOT_TESTABLE), ("2", CONTRADICTED)])
def test_a_server_whose_interrupts_share_its_cpu_decides_nothing(tmp_path, cpus, wanted):
    kept = results(tmp_path, lab={"hosts": {"server": {"cpus": cpus}}})
    verdict = judged(studies.find("docker_redis"), "docker-redis-09", [10, 80_000], kept)
    assert verdict.verdict == wanted and verdict.local.says == "differs"
    assert ("it takes 2 CPUs" in verdict.why) == (cpus == "1")
