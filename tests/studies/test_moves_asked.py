"""What moves of a study ask of labs that are not made for them."""

from labkit import studies
from labkit.lab import Lab
from labkit.settings.egress import Link


def test_the_far_end_of_a_link_is_asked_only_where_the_lab_has_it(tmp_path):
    far = studies.find("ld_vmotion").condition("VM [rtt=100ms]")
    file = tmp_path / "lab.toml"
    file.write_text(
        '[hosts.client]\ncontrol = "192.0.2.1"\n[hosts.server]\ncontrol = "192.0.2.2"\n'
    )
    assert far.asked(Lab.read(file)) == [Link(500, 50)]
    file.write_text(file.read_text() + '[hosts.server2]\ncontrol = "192.0.2.3"\n')
    assert far.asked(Lab.read(file)) == [Link(500, 50), Link(500, 50, role="server2")]
