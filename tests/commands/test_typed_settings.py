"""A setting as a user types it is read without running anything, or refused in words."""

import pytest

from labkit.commands._setting import looks_like_setting, setting_of, usage
from labkit.errors import BadInput
from labkit.settings import kinds_of_setting, needs_words
from labkit.settings.egress import NetIoControl, Traffic
from labkit.settings.guest_power import GuestPower
from labkit.settings.mtu import Mtu
from labkit.settings.offloads import NicQueues

WRONG = {
    "Mtu": "'Mtu' is not a setting",
    "Mtu(9000": "was never closed",
    "Mtu(nine)": "nine is no plain value",
    "Mtu(1 + 1)": "1 + 1 is no plain value",
    "Mtu(1, 2, 3)": "too many positional arguments",
    "Mtu(sice=9000)": "unexpected keyword argument 'sice'",
    "Mtu(*sizes)": "is no plain value",
    "Mtu(**sizes)": "is no plain value",
    "Mtu(5)": "from 68 to 65535",
    "Mtuu(9000)": "did you mean 'Mtu'",
    "os.system('id')": "does not begin with the name of a setting",
    "Setting()": "unknown setting 'Setting'",
    "NetIoControl(1000, (Trafic(1, 2),))": "has no part 'Trafic'",
    "NetIoControl(1000, (open('/etc/passwd'),))": "has no part 'open'",
    "CongestionControl()": "missing a required argument: 'algorithm'",
}


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("Mtu(9000)", Mtu(9000)),
        (" Mtu( size = 1400 ) ", Mtu(1400)),
        ("Mtu(1400, role='client')", Mtu(1400, role="client")),
        ("NicQueues(None, rx=2)", NicQueues(None, rx=2)),
        ("NetIoControl(1000, (Traffic(9000, 100, 200),))",
         NetIoControl(1000, (Traffic(9000, 100, 200),))),
        ("GuestPower('off')", GuestPower("off")),
    ],
)  # fmt: skip
def test_a_typed_setting_is_the_one_that_python_would_make(text, setting):
    assert setting_of(text) == setting


def test_the_role_is_the_one_asked_for_unless_the_text_names_its_own():
    assert setting_of("Mtu(9000)", "client").role == "client"
    assert setting_of("Mtu(9000, role='server')", "client").role == "server"


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_setting_is_refused_with_what_is_wrong_in_it(text):
    with pytest.raises(BadInput) as error:
        setting_of(text)
    assert WRONG[text] in f"{error.value} {error.value.hint}"


def test_a_study_and_a_file_are_no_setting():
    assert [text for text in ("lat_ping", "plan.json", "./Plan") if looks_like_setting(text)] == []


@pytest.mark.parametrize("kind", [k for k in kinds_of_setting() if not needs_words(k)])
def test_what_usage_shows_of_a_setting_can_be_typed(kind):
    assert setting_of(usage(kind)) == kind()
