"""A plan leaves all as it was: a box that it brings up is told, and down again at its end."""

import pytest

from labkit import box

pytestmark = [pytest.mark.box, pytest.mark.slow]
NAME = "pair"


def test_a_box_that_a_plan_has_brought_up_is_down_again_afterwards(labkit):
    if box.status(NAME).state == "up":
        pytest.skip("a box of the user's has that name")
    try:
        planned = labkit("plan", "lat_vmxnet3")
        assert planned.returncode == 0 and f"the box {NAME} is down again" in planned.stderr
        assert all(len(line) <= 80 for line in planned.stdout.splitlines())
        assert box.status(NAME).state == "down" and not box.status(NAME).left
        box.up(NAME, made_of=NAME)
        planned = labkit("plan", "lat_vmxnet3")
        assert planned.returncode == 0 and "down again" not in planned.stderr
        assert box.status(NAME).state == "up"
    finally:
        box.down(NAME)
