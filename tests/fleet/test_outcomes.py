"""What came of many hosts, and of none."""

from labkit.fleet.fleet import Fleet, Outcomes


def test_each_of_many_outcomes_is_looked_at_a_few_times():
    looked = []

    class Answer:
        @property
        def ok(self):
            looked.append(self)
            return True

    assert len(Outcomes({str(n): Answer() for n in range(100)}).check()) == 100
    assert len(looked) <= 300


def test_a_fleet_of_none_answers_nothing():
    assert Fleet({}).run("true").check() == {}
