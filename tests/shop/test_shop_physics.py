"""What any computer that serves a shop has to show: more CPUs more orders, and not more without."""

import os

import pytest
import shops
from brought import HERE
from by_hand import best_of_both

from labkit.workloads import _database
from labkit.workloads.dvdstore import DvdStore

CPUS = sorted(os.sched_getaffinity(0))[:2]
pytestmark = [
    pytest.mark.torture,
    pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs"),
]


class Measured:
    """Shops with four customers each; what was undone in all runs is kept."""

    def __init__(self):
        self.orders, self.undone = 0, 0.0

    def rate(self, instances, cpus):
        """Orders a minute, the drivers on the same CPUs as the databases."""
        load = DvdStore(
            users=4, duration=3, warm_up=1, buffers=32, instances=instances, durability="fast"
        )
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cpus)
        try:
            text = load.run({"client": HERE, "server": HERE})
        finally:
            os.sched_setaffinity(0, before)
        found = {one.metric: one.values for one in load.parse(text)}
        orders = len(found["response time"])
        self.orders, self.undone = self.orders + orders, self.undone + orders * found["undone"][0]
        return found["orders per minute"].mean()


@pytest.fixture(scope="module")
def measured():
    with pytest.MonkeyPatch.context() as patch, shops.place() as folder:
        patch.setattr(_database, "KEPT", str(folder / "kept"))
        found = Measured()
        found.rate(2, CPUS)  # both are filled then
        yield found


def test_two_databases_on_two_cpus_do_more_than_one_on_one(measured):
    def more(ratio):
        return 1.4 < ratio < 2.8

    two, one = (lambda: measured.rate(2, CPUS)), (lambda: measured.rate(1, CPUS[:1]))
    assert more(best_of_both(two, one, more, most=4))


def test_two_databases_on_one_cpu_do_no_more_than_one(measured):
    def bounded(ratio):
        return 0.6 < ratio < 1.25

    two, one = (lambda: measured.rate(2, CPUS[:1])), (lambda: measured.rate(1, CPUS[:1]))
    assert bounded(best_of_both(two, one, bounded, most=4))


def test_about_two_in_a_hundred_purchases_are_undone(measured):
    while measured.orders < 2_000:
        measured.rate(2, CPUS)
    assert 0.01 < measured.undone / measured.orders < 0.035
