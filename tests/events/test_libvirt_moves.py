"""What a real libvirt says before a machine of its own is moved."""

import pytest
import worlds

from labkit.events._libvirt import _other_cpu

PROGRAMS = ("virsh",)

pytestmark = [pytest.mark.box, pytest.mark.slow]
LARGE = """\
<domain type='qemu'><name>large</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type></os>
<cpu mode='custom' match='exact'><model fallback='forbid'>Cascadelake-Server</model></cpu>
</domain>
"""


def test_a_machine_whose_cpu_the_other_host_cannot_give_is_not_moved(tmp_path):
    with worlds.kvm(tmp_path) as host:
        assert _other_cpu(host, host, "lab") == ""
        host.check("virsh", "define", "/dev/stdin", stdin=LARGE.encode())
        assert "lacks the CPU that large uses" in _other_cpu(host, host, "large")
