"""What the stand-in is when it is new: a host with two NICs and two virtual machines.

Names and defaults of the options are those of ESXi 8.0.3 as public listings have them; the ranges
of the numbers are partly ours, wide enough for what documents ask for.
"""

ADVANCED = """\
/Net/Vmxnet3SwLRO 1 0 1
/Net/Vmxnet3HwLRO 1 0 1
/Net/Vmxnet2SwLRO 1 0 1
/Net/Vmxnet2HwLRO 1 0 1
/Net/TcpipDefLROEnabled 1 0 1
/Net/UseHwTSO 1 0 1
/Net/UseHwTSO6 1 0 1
/Net/CoalesceDefaultOn 1 0 1
/Net/CoalesceRBCRate 4000 100 100000
/Net/NetLatencyAwareness 1 0 1
/Net/NetVMTxType 2 1 3
/Net/NetSplitRxMode 1 0 1
/Irq/IRQAvoidExclusive 1 0 1
/Migrate/VMotionStreamHelpers 0 0 112
/Migrate/PreCopySwitchoverTimeGoal 500 100 100000
/Migrate/SdpsEnabled 2 0 2
/Migrate/SdpsTargetRate 500 0 10000
/Migrate/SndBufSize 562540 65536 16777216
/Migrate/RcvBufSize 562540 65536 16777216
/Mem/AllocGuestLargePage 1 0 1
/Mem/ShareForceSalting 2 0 2
/Power/UsePStates 1 0 1
/Power/UseCStates 1 0 1
/Power/CStateMaxLatency 1000 0 1000000
/Power/MinFreqPct 0 0 100
/Power/MaxFreqPct 100 0 100
/Numa/PreferHT 0 0 1
/Numa/LocalityWeightActionAffinity 130 0 200
/Numa/RebalanceEnable 1 0 1
/Disk/QFullSampleSize 0 0 64
"""

TEXTS = {
    "/Power/CpuPolicy": ("Balanced", ("High Performance", "Balanced", "Low Power", "Custom")),
    "/Net/CoalesceScheme": ("rbc", ("disabled", "rbc", "static", "adapt", "calibrate")),
    "/Net/CoalesceParams": ("", ()),
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


def _integers():
    rows = (line.split() for line in ADVANCED.splitlines())
    return {
        path: {"type": "integer", "value": int(n), "default": int(n), "min": int(a), "max": int(b)}
        for path, n, a, b in rows
    }


def _texts():
    return {
        path: {"type": "string", "value": value, "default": value, "min": 0, "max": 0, "of": of}
        for path, (value, of) in TEXTS.items()
    }


def _nic(driver, speed):
    moderation = {"rx": 3, "rx_frames": 15, "tx": 0, "tx_frames": 1, "arx": "Off", "atx": "Off"}
    rings = {"rx": 512, "tx": 512, "most": 4096}
    return {"driver": driver, "speed": speed, "moderation": moderation, "rings": rings, "queues": 8}


def _module(**options):
    return {"known": list(options), "options": {}, "loaded": {}, "means": options}


def _machine(name, power):
    return {"name": name, "power": power, "keys": {**LAB, "displayName": name}}


def state():
    """All that the stand-in knows."""
    setting = {"type": "Bool", "configured": "TRUE", "runtime": "TRUE", "default": "TRUE"}
    return {
        "advanced": {**_integers(), **_texts()},
        "kernel": {name: dict(setting) for name in ("hyperthreading", "hyperthreadingMitigation")},
        "modules": {
            "ixgben": _module(
                RSS="Number of receive queues per port",
                max_vfs="Number of virtual functions per port",
                InterruptThrottleRate="Interrupts per second and vector, per port",
            )
        },
        "nics": {"vmnic0": _nic("ntg3", 1000), "vmnic1": _nic("ixgben", 10000)},
        "switches": {"vSwitch0": 1500, "vSwitch1": 1500},
        "interfaces": {
            "vmk0": {
                "switch": "vSwitch0",
                "group": "Management Network",
                "mtu": 1500,
                "tags": ["Management"],
            },
            "vmk1": {"switch": "vSwitch1", "group": "vMotion", "mtu": 1500, "tags": []},
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
