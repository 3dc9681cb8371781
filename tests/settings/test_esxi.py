"""Settings of ESXi on the stand-in, which is no ESXi: no real host has run them yet."""

import json
from dataclasses import replace

import pytest
from esxi_stand_in import stand_in

from labkit.changes.in_force import applied
from labkit.changes.plan import plan
from labkit.commands._setting import setting_of
from labkit.errors import LabkitError
from labkit.host import Guest
from labkit.setting import way_among

PROGRAMS = ("bash", "esxcli", "vim-cmd")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.when_changed("labkit/settings/", "labkit/changes/"),
]


@pytest.fixture
def esxi(tmp_path):
    with stand_in.standing_in(tmp_path) as found:
        yield replace(found, host=replace(found.host, interface="vmnic1"))


def way(typed, esxi):
    return way_among(setting_of(typed), ["esxi"], esxi.host)[1]


def shown(found, esxi, words=None):
    """The value that a way reads, or that of other words."""
    return found.value(esxi.host.check(*(words or found.reads)))


def make(typed, esxi):
    put(way(typed, esxi), setting_of(typed).wanted, esxi)


def put(found, value, esxi):
    for words in found.writes(value):
        esxi.host.check(*words)


def known(esxi, number):
    """What the service that keeps a machine knows of it."""
    text = (esxi.root / "var/lib/stand_in.json").read_text()
    return json.loads(text)["machines"][number]["keys"]


def state(esxi):
    return [path.read_text() for path in (esxi.vmx("lab"), esxi.root / "var/lib/stand_in.json")]


def reboot(esxi):
    esxi.host.check("vim-cmd", "vmsvc/power.off", "2")
    esxi.host.check("esxcli", "system", "maintenanceMode", "set", "-e", "true")
    esxi.host.check("esxcli", "system", "shutdown", "reboot", "-r", "options of the kernel")


def test_a_latency_sensitive_guest_starts_only_with_its_memory_reserved(esxi):
    make("LatencySensitivity('lab')", esxi)
    refused = esxi.host.run("vim-cmd", "vmsvc/power.on", "1")
    assert not refused.ok and "reservation" in refused.stderr
    make("GuestMemoryReservation('lab', 4096)", esxi)
    refused = esxi.host.run("vim-cmd", "vmsvc/power.on", "1")
    assert not refused.ok and "CPU reservation" in refused.stderr, "since 6.0"
    make("GuestCpuReservation('lab', 5000)", esxi)
    esxi.host.check("vim-cmd", "vmsvc/power.on", "1")
    assert known(esxi, "1")["sched.cpu.latencySensitivity"] == "high"


STUDY = """\
LatencySensitivity('lab')
GuestCpuReservation('lab', 5000)
VnicMerging(False)
GuestMemoryReservation('lab', 4096)
VnicCoalescing('lab', 'disabled')
Coalescing(0, adaptive_rx=False)
AdvancedOption('/Irq/IRQAvoidExclusive', 0)"""


def test_the_engine_makes_settings_of_a_whole_study_and_puts_them_back(esxi):
    before = state(esxi)
    with applied(list(map(setting_of, STUDY.split("\n"))), {"server": esxi.host}):
        text = esxi.vmx("lab").read_text()
        assert 'sched.cpu.latencySensitivity = "high"' in text and 'sched.mem.pin = "TRUE"' in text
        assert shown(way("AdvancedOption('/Net/Vmxnet3SwLRO', 0)", esxi), esxi) == "0"
    assert state(esxi) == before


def test_a_running_guest_is_shut_down_and_started_again(esxi):
    make("GuestMemory('shop', 8192)", esxi)
    assert 'memSize = "8192"' in esxi.vmx("shop").read_text()
    assert known(esxi, "2")["memSize"] == "8192" and on(esxi, "2")


def test_the_stand_in_rewrites_the_description_of_a_running_guest_as_esxi_does(esxi):
    before = esxi.vmx("shop").read_text()
    esxi.host.check("sh", "-c", "echo 'numa.nodeAffinity = \"0\"' >> \"$0\"",
                    "/vmfs/volumes/datastore1/shop/shop.vmx")  # fmt: skip
    esxi.host.check("vim-cmd", "vmsvc/reload", "2")
    assert esxi.vmx("shop").read_text() == before


def test_keys_are_found_in_whatever_case_and_stay_in_their_place(esxi):
    text = esxi.vmx("lab").read_text().replace("memSize", "memsize")
    esxi.vmx("lab").write_text(text)
    found = way(typed := "GuestMemory('lab', 8192)", esxi)
    before = shown(found, esxi)
    make(typed, esxi)
    lines = esxi.vmx("lab").read_text().splitlines()
    assert lines.index('memSize = "8192"') == text.splitlines().index('memsize = "4096"')
    put(found, before, esxi)
    assert 'memSize = "4096"' in esxi.vmx("lab").read_text()


@pytest.mark.parametrize("name", ["nobody", "la.", "l", "lab2", "ab"])
def test_a_machine_that_is_not_there_is_named_and_no_other_stands_for_it(esxi, name):
    refused = esxi.host.run(*way(f"GuestCpus('{name}', '0')", esxi).reads)
    wanted = f"no virtual machine {name}".replace(".", "")
    assert not refused.ok and wanted in refused.stderr.replace("\\.", "")


# Captures show the switches of the kernel in three layouts.
@pytest.mark.parametrize("layout", ["first", "lower", "last"])
def test_what_takes_a_reboot_is_configured_now_and_runs_after_it(esxi, layout):
    changed(esxi, kernel_layout=layout)
    found = way(typed := "HyperThreading(False)", esxi)
    make(typed, esxi)
    assert [shown(found, esxi), shown(found, esxi, found.live)] == ["off", "on"]
    assert found.needs == {"root", "reboot"}
    reboot(esxi)
    assert shown(found, esxi, found.live) == "off"


def changed(esxi, **state):
    """The stand-in as another release of ESXi would be."""
    file = esxi.root / "var/lib/stand_in.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | state))


@pytest.mark.parametrize("typed", ["VnicMerging(False)", "ModuleOptions('ixgben', ('RSS=4',))"])
def test_what_only_a_start_brings_is_in_force_only_after_it(esxi, typed):
    found, wanted = way(typed, esxi), setting_of(typed).wanted
    before = esxi.host.check(*found.reads)
    make(typed, esxi)
    assert shown(found, esxi) == wanted
    assert esxi.host.check(*found.live) == before and "reboot" in found.needs
    put(found, found.value(before), esxi)
    assert esxi.host.check("ls", "/tmp") == "", "all is as it was, so nothing is remembered"
    make(typed, esxi)
    reboot(esxi)
    assert shown(found, esxi, found.live) == wanted


# The second device waits for a start, and 6.7 applies nothing at once.
@pytest.mark.parametrize("function, release, live", [
    (0, "8.0.3", "on"), (1, "8.0.3", "off"), (0, "6.7.0", "off"),
])  # fmt: skip
def test_a_device_that_waits_for_a_start_is_not_yet_passed(esxi, function, release, live):
    changed(esxi, release=release)
    found = way(typed := f"Passthrough('0000:03:00.{function}')", esxi)
    make(typed, esxi)
    assert (shown(found, esxi), shown(found, esxi, found.live)) == ("on", live)
    step = plan([setting_of(typed)], {"server": esxi.host}).steps[0]
    assert step.waits is (live == "off")
    assert step.told()["state"] == ("waits for a reboot" if step.waits else "in force")


@pytest.mark.parametrize("line, whole", [
    ("", True), ("sched.cpu.max = \"-1\"", True), ("sched.cpu.max = \"4000\"", False),
    ("sched.cpu.min = \"100\"", False), ("sched.mem.min = \"100\"", False),
])  # fmt: skip
def test_all_cpu_time_is_reserved_only_if_all_of_it_is_and_nothing_limits_it(esxi, line, whole):
    guests = {"guest": Guest("lab", "127.0.0.1", 0)}
    esxi = replace(esxi, host=replace(esxi.host, guests=guests))
    found, wanted = way("FullReservation()", esxi), "all memory and CPU time"
    put(found, wanted, esxi)
    assert "5000" in esxi.vmx("lab").read_text(), "two CPUs of 2500 MHz"
    key = line.partition(" ")[0]
    kept = [one for one in esxi.vmx("lab").read_text().splitlines()
            if not line or not one.startswith(f"{key} ")]  # fmt: skip
    esxi.vmx("lab").write_text("".join(f"{one}\n" for one in [*kept, *filter(None, [line])]))
    esxi.host.check("vim-cmd", "vmsvc/reload", "1")
    assert (shown(found, esxi) == wanted) is whole
    put(found, wanted, esxi)
    assert shown(found, esxi) == wanted
    assert not whole or "4000" not in esxi.vmx("lab").read_text()


def test_a_guest_with_a_passed_through_device_starts_only_with_its_memory_reserved(esxi):
    text = esxi.vmx("lab").read_text()
    passed = text.replace('pciPassthru0.present = "FALSE"', 'pciPassthru0.present = "TRUE"')
    esxi.vmx("lab").write_text(passed)
    esxi.host.check("vim-cmd", "vmsvc/reload", "1")
    refused = esxi.host.run("vim-cmd", "vmsvc/power.on", "1")
    assert not refused.ok and "memory reservation" in refused.stderr


@pytest.mark.parametrize("ms", [50, 200_000])
def test_a_goal_that_esxi_does_not_take_is_refused(esxi, ms):
    step = plan([setting_of(f"MigrationDowntime('lab', {ms})")], {"server": esxi.host}).steps[0]
    assert step.why == "100 to 100000 ms"


def test_options_of_a_driver_are_set_together_and_an_empty_value_is_none(esxi):
    found = way("ModuleOptions('ixgben', ('max_vfs=8,8',))", esxi)
    for options, text in (("RSS=4",), "RSS=4\n"), (("max_vfs=8,8",), "max_vfs=8,8\n"), ((), ""):
        make(f"ModuleOptions('ixgben', {options})", esxi)
        assert esxi.host.check(*found.reads) == text
        assert shown(found, esxi) == (text.strip() or "none")


def test_a_switch_is_at_no_moment_below_its_interface(esxi):
    esxi = replace(esxi, host=replace(esxi.host, interface="vmk1"))
    before = state(esxi)
    for size in (9000, 4000, 1500):
        make(f"Mtu({size})", esxi)
        assert shown(way(f"Mtu({size})", esxi), esxi) == str(size)
    assert state(esxi) == before
    assert way("Mtu(1000)", esxi).refuses("vmk1 1500 vSwitch1 1500\n") == "1280 to 9000 bytes"


@pytest.mark.parametrize("words, said", [
    (("system", "settings", "advanced", "set", "-o", "/Net/Nothing", "-i", "1"), "Unable to find"),
    (("system", "settings", "advanced", "set", "-o", "/Net/UseHwTSO", "-i", "2"), "0 and 1"),
    (("system", "settings", "advanced", "set", "-o", "/Power/CpuPolicy", "-s", "Fast"), "Balanced"),
    (("system", "setting", "advanced", "list"), "Unknown command or namespace"),
    (("system", "module", "parameters", "set", "-p", "a=1"), "required parameter -m|--module"),
    (("network", "nic", "ring", "current", "set", "-n", "vmnic1", "-r", "9999"), "between 64 and"),
    (("network", "ip", "interface", "set", "-i", "vmk1", "-m", "9000"), "between 1280 and 1500"),
    (("hardware", "pci", "pcipassthru", "set", "-d", "0000:99:00.0", "-e", "true"), "Unable to"),
    (("system", "maintenanceMode", "set", "-e", "true"), "powered on"),
])  # fmt: skip
def test_the_stand_in_refuses_what_esxi_refuses_and_changes_nothing(esxi, words, said):
    before = state(esxi)
    done = esxi.host.run("esxcli", *words)
    assert done.code == 1 and said in done.stderr
    assert state(esxi) == before


def test_the_stand_in_has_the_shell_and_the_tools_of_esxi_and_no_others(esxi):
    assert not esxi.host.run("sh", "-c", "a=(1 2)").ok
    for name in ("bash", "python3", "systemctl", "perl"):
        assert esxi.host.run("sh", "-c", 'command -v "$0"', name).code
    assert esxi.host.run("ls", "/proc/self").code


def on(esxi, number):
    return "Powered on" in esxi.host.check("vim-cmd", "vmsvc/power.getstate", number)


@pytest.mark.parametrize("name, number, runs", [("lab", "1", False), ("shop", "2", True)])
def test_what_goes_wrong_on_the_way_leaves_a_guest_as_it_was(esxi, name, number, runs):
    """The datastore is full: the copy that was begun is taken away, what was stopped runs again."""
    before = esxi.vmx(name).read_text()
    esxi.vmx(name).with_suffix(".vmx.labkit2").mkdir()
    with pytest.raises(LabkitError):
        make(f"GuestMemory('{name}', 8192)", esxi)
    assert esxi.vmx(name).read_text() == before and on(esxi, number) is runs


def test_a_guest_that_somebody_killed_in_between_left_stopped_is_started_when_all_is_put_back(esxi):
    found = way("GuestMemory('shop', 8192)", esxi)
    before = esxi.host.check(*found.reads)
    esxi.host.check("vim-cmd", "vmsvc/power.shutdown", "2")
    esxi.vmx("shop").with_suffix(".vmx.labkit-ran").touch()
    assert esxi.host.check(*found.reads) != before
    assert shown(found, esxi) == "memSize=4096, and stopped"
    put(found, found.value(before), esxi)
    assert esxi.host.check(*found.reads) == before and on(esxi, "2")
