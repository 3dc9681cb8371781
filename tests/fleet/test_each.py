import pytest
from each import each


def test_a_test_of_many_things_names_the_one_that_it_fails_of_and_looks_at_something():
    seen = []

    def check(number):
        seen.append(number)
        assert number < 3

    each([1, 2], str)(check)()
    assert seen == [1, 2]
    with pytest.raises(AssertionError) as error:
        each([1, 4, 2], lambda number: f"file {number}")(check)()
    assert error.value.__notes__ == ["of file 4"]
    with pytest.raises(AssertionError, match="nothing to look at"):
        each([], str)(check)()
