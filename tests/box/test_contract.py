"""The contract of guests is tried whole, and is what the page of it says."""

import pytest

from labkit.box import status
from labkit.box.guests import accelerator, contract
from labkit.machine.places import HOME
from labkit.settings import kinds_of_setting
from labkit.settings._guest import OfGuest, OfMachine
from tests.box.test_accelerator import needs_qemu

PAGE = HOME / "notebooks/docs/proof/guests.md"
COLUMNS = {"uml": 2, "tcg": 3}
OF_A_MACHINE = ("real-time", "hyper-threads", "Operation not permitted", "one CPU only", "tmpfs")
"""Words of reasons that are a machine's, and not an accelerator's."""
ABOUT_GUESTS = (
    "GuestLargePages", "HaltPolling", "HugePages", "Passthrough", "Sriov", "TransparentHugePages",
    "VnicMerging",
)  # fmt: skip
"""Settings of a host that are about its guests."""


def test_every_setting_of_a_guest_is_tried_or_the_page_says_why_not():
    tried = {type(setting) for setting in contract.SETTINGS.values()}
    text = PAGE.read_text("utf-8")
    for kind in kinds_of_setting():
        of_a_guest = issubclass(kind, OfGuest | OfMachine) or kind.__name__ in ABOUT_GUESTS
        if of_a_guest and kind not in tried:
            assert f"| `{kind.__name__}` | {kind.gaps['box']} |" in text


@needs_qemu
@pytest.mark.box
@pytest.mark.slow
@pytest.mark.torture
@pytest.mark.parametrize("asked", COLUMNS)
def test_all_that_guests_do_is_tried_and_is_what_the_page_says(asked, monkeypatch):
    monkeypatch.setenv(accelerator.VARIABLE, asked)
    result = contract.try_all(lambda _: None)
    assert result.accelerator == asked and not result.count(contract.FAILURE), result.trials
    assert status(contract.NAME).state == "down"
    rows = [line.split("|")[1:-1] for line in PAGE.read_text("utf-8").splitlines()]
    cells = {row[0].strip(): row[COLUMNS[asked]].strip() for row in rows if len(row) == 4}
    for trial in result.trials:
        if not any(word in trial.words for word in OF_A_MACHINE):
            assert cells[trial.what].startswith(trial.state), trial
