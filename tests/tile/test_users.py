"""Users of tiles: when each of them is there, and one who is not served."""

import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from labkit.errors import LabkitError
from labkit.tile import users
from labkit.tile.users import MAIL, SHOP, Places, Stretch


class Slow:
    """Users who are answered after a while, and take note of when they asked."""

    stretch = 1

    def __init__(self, seconds):
        self.seconds, self.asked = seconds, {}

    @contextmanager
    def user(self, load, tile, nth):
        times = self.asked.setdefault((load, tile, nth), [])

        def act():
            times.append(time.monotonic())
            time.sleep(self.seconds)

        yield act


@pytest.mark.slow
def test_two_customers_of_three_come_in_bursts_of_a_quarter_each():
    places, begun = Slow(0.01), time.monotonic()
    took, seconds = Stretch(1, 2.0, 0.2, 0.04).run(places)
    spans = [places.asked[SHOP, 0, nth][1:] for nth in range(3)]
    for times, (first, last) in zip(spans, users.PRESENT[SHOP], strict=True):
        assert begun + 0.2 + 2 * last + 0.2 > max(times) and len(times) > 5
        assert first == 0 or min(times) >= begun + 0.2 + 2 * first
    every = places.asked.values()
    assert max(times[0] for times in every) < min(times[1] for times in every)
    assert all(10 <= ms < 200 for load in took.values() for tile in load for ms in tile)
    assert 2 <= seconds < 2.2
    assert sum(len(tile) for tile in took[SHOP]) > 1.2 * len(took[MAIL][0])


@pytest.mark.slow
def test_who_waits_for_longer_than_the_time_is_counted_and_makes_it_longer():
    took, seconds = Stretch(2, 0.4, 0.1, 0.01).run(Slow(1.0))
    assert all(len(took[MAIL][tile]) == 1 for tile in (0, 1)) and 0.6 < seconds < 2


def test_a_user_who_is_not_served_fails_the_run_and_is_named():
    places = Places(["127.0.0.1:1"] * 3, "127.0.0.1:1", ("127.0.0.1", 1, 1), "w", 1)
    with pytest.raises(LabkitError, match="was not served"):
        Stretch(1, 0.2, 0, 0.01).run(places)


def test_a_fault_of_our_own_in_a_user_ends_the_run():
    """A user who is gone unseen would be a tile that looks idle."""
    with pytest.raises(AttributeError, match="stretch"):
        Stretch(1, 0.1, 0, 0.01).run(SimpleNamespace(user=Slow(0).user))
