"""A box that a verb brings up by itself is told, with the command that ends it."""

import pytest

from labkit import box

pytestmark = [pytest.mark.box, pytest.mark.slow]
NAME = "pair"


def test_a_box_that_a_plan_has_brought_up_is_told_once(labkit):
    if box.status(NAME).state == "up":
        pytest.skip("a box of the user's has that name")
    try:
        first, second = (labkit("plan", "lat_vmxnet3") for _ in range(2))
        assert f"the box {NAME} stays up until `labkit box down --name {NAME}`" in first.stderr
        assert first.returncode == second.returncode == 0 and "stays up" not in second.stderr
    finally:
        box.down(NAME)
