"""The remark on how often results were judged, and what that took of the risk."""

import pytest

from labkit.verdict import looked


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        ([], ""),
        ([((1,), 0.03)], "once, at 1 block: that took 3 %"),
        ([((5,), 0.03)], "once, at 5 blocks: that took 3 %"),
        ([((5,), 0.03), ((5, 8, 10), 0.042)], "3 times, at 5, 8 and 10 blocks: that took 4.2 %"),
    ],
)
def test_the_looks_of_the_claim_that_took_most_are_told(taken, said):
    whole = f"These results were judged {said} of the risk of 5 %."
    assert looked(taken) == (whole if said else "")
