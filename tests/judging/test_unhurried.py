"""A rate that was chosen too low tells nothing of who bears a higher one."""

from types import SimpleNamespace

import pytest

from labkit import studies
from labkit.judging.loads import TOO_SLOW, unhurried

STUDY = studies.find("lat_vmxnet3")


@pytest.mark.parametrize("lost, refused", [
    ({"VMXNET3": (0, 0, 0), "VMXNET3-Latency": (0, 0.001, 0.3)}, True),
    ({"VMXNET3": (0, 0, 0), "VMXNET3-Latency": (0.1, 0.2, 0)}, False),
    ({}, False),
])  # fmt: skip
def test_a_claim_on_throughput_is_judged_where_one_condition_loses_something(lost, refused):
    measured = {
        f"lost: {name}": {block: [share] for block, share in enumerate(shares)}
        for name, shares in lost.items()
    }
    reasons = unhurried(SimpleNamespace(study=STUDY, measured=measured))
    assert reasons == ({"lat-vmxnet3-02": TOO_SLOW} if refused else {})


def test_a_load_that_sends_when_it_was_answered_is_never_too_slow():
    assert unhurried(SimpleNamespace(study=studies.find("docker_redis"), measured={})) == {}
