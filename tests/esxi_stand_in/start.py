"""What the stand-in is when it is new: a host with two NICs and two virtual machines.

Names and defaults of the options are those of ESXi 8.0.3 as public listings have them; the ranges
of the numbers are partly ours, wide enough for what documents ask for.
"""

ADVANCED = """\
/Net/Vmxnet3SwLRO 1 0 1
/Net/Vmxnet3HwLRO 1 0 1
/Net/UseHwTSO 1 0 1
/Net/NetVMTxType 2 1 3
/Irq/IRQAvoidExclusive 1 0 1
/Migrate/VMotionStreamHelpers 0 0 112
/Migrate/PreCopySwitchoverTimeGoal 500 100 100000
/Migrate/SdpsEnabled 2 0 2
/Mem/AllocGuestLargePage 1 0 1
/Mem/ShareForceSalting 2 0 2
/Power/CStateMaxLatency 1000 0 1000000
/Numa/RebalanceEnable 1 0 1
"""

TEXTS = {
    "/Power/CpuPolicy": ("Balanced", ("High Performance", "Balanced", "Low Power", "Custom")),
    "/Net/CoalesceScheme": ("rbc", ("disabled", "rbc", "static", "adapt", "calibrate")),
}

LAB = {
    ".encoding": "UTF-8",
    "config.version": "8",
    "virtualHW.version": "20",
    "displayName": "lab",
    "guestOS": "debian12-64",
    "numvcpus": "2",
    "memSize": "4096",
    "scsi0.virtualDev": "lsilogic",
    "ethernet0.present": "TRUE",
    "ethernet0.virtualDev": "vmxnet3",
    "ethernet0.networkName": "VM Network",
    "ethernet1.present": "TRUE",
    "ethernet1.virtualDev": "vmxnet3",
    "ethernet1.networkName": "Lab",
    "pciPassthru0.present": "FALSE",
}


def _option(kind, value, least, most, of=()):
    return {"type": kind, "value": value, "default": value, "min": least, "max": most, "of": of}


def _advanced():
    rows = (line.split() for line in ADVANCED.splitlines())
    numbers = {path: _option("integer", *map(int, row)) for path, *row in rows}
    texts = {path: _option("string", value, 0, 0, of) for path, (value, of) in TEXTS.items()}
    return numbers | texts


def _nic():
    moderation = {"rx": 3, "rx_frames": 15, "tx": 0, "tx_frames": 1, "arx": "Off", "atx": "Off"}
    return {"moderation": moderation, "rings": {"rx": 512, "tx": 512, "most": 4096}}


def _machine(name, power):
    return {"name": name, "power": power, "keys": {**LAB, "displayName": name}}


MODULE = {
    "RSS": "Number of receive queues per port",
    "max_vfs": "Number of virtual functions per port",
    "InterruptThrottleRate": "Interrupts per second and vector, per port",
}


def _interface(switch, group, *tags):
    return {"switch": switch, "group": group, "mtu": 1500, "tags": list(tags)}


def state():
    """All that the stand-in knows."""
    setting = {"type": "Bool", "configured": "TRUE", "runtime": "TRUE"}
    return {
        "advanced": _advanced(),
        "kernel": {name: dict(setting) for name in ("hyperthreading", "hyperthreadingMitigation")},
        "modules": {"ixgben": {"options": {}, "means": MODULE}},
        "nics": {"vmnic0": _nic(), "vmnic1": _nic()},
        "switches": {"vSwitch0": 1500, "vSwitch1": 1500},
        "interfaces": {
            "vmk0": _interface("vSwitch0", "Management Network", "Management"),
            "vmk1": _interface("vSwitch1", "vMotion"),
        },
        "passthrough": {"0000:03:00.0": False, "0000:03:00.1": False},
        # Some devices are handed over at once; the second waits for the host's next start.
        "passed": {"0000:03:00.0": False, "0000:03:00.1": False},
        "at_once": ["0000:03:00.0"],
        "release": "8.0.3",
        # Public captures show three: values after the type, also in small letters, or at the end.
        "kernel_layout": "first",
        "devices": {"naa.600508b1001c": 32},
        "maintenance": False,
        "machines": {"1": _machine("lab", "off"), "2": _machine("shop", "on")},
    }
