"""Virtual machines of the stand-in: `vim-cmd vmsvc/...` and their .vmx files."""

import re
from pathlib import Path

from forms import Refused

STORE = "/vmfs/volumes/datastore1"
LINE = re.compile(r'^\s*([A-Za-z0-9_.:]+)\s*=\s*"([^"]*)"\s*$')


def run(state, words):
    """`vim-cmd vmsvc/VERB [ID]`."""
    _rewrite_running(state)
    if words == ["vmsvc/getallvms"]:
        return all_machines(state)
    if words == ["hostsvc/hostconfig"]:
        return host_config(state)
    if len(words) != 2 or words[0] not in VERBS:
        raise Refused(f"Invalid command '{' '.join(words)}'.")
    if words[1] not in state["machines"]:
        raise Refused(
            "(vim.fault.NotFound) {\n   faultCause = (vmodl.MethodFault) null,\n"
            f'   msg = "Unable to find a VM corresponding to "{words[1]}""\n}}'
        )
    return VERBS[words[0]](state["machines"][words[1]])


def path(one):
    """Where the description of a machine is."""
    return f"{STORE}/{one['name']}/{one['name']}.vmx"


def write_all(root):
    """The .vmx files of a new stand-in."""
    import json

    for load in json.loads((root / "var/lib/stand_in.json").read_text())["machines"].values():
        file = root / path(load).strip("/")
        file.parent.mkdir(parents=True)
        file.write_text(_vmx(load["keys"]))


def _vmx(keys):
    return "".join(f'{key} = "{value}"\n' for key, value in keys.items())


# The service that keeps the machines has its own idea of one that runs, and writes it down.
def _rewrite_running(state):
    for one in state["machines"].values():
        if one["power"] == "on" and Path(path(one)).read_text() != _vmx(one["keys"]):
            Path(path(one)).write_text(_vmx(one["keys"]))


def all_machines(state):
    head = "Vmid   Name   File                         Guest OS            Version   Annotation\n"
    return head + "".join(
        f"{n:<6} {one['name']:<6} [datastore1] {one['name']}/{one['name']}.vmx   "
        f"{one['keys'].get('guestOS', 'other')}Guest   vmx-20              \n"
        for n, one in state["machines"].items()
    )


def host_config(state):
    rows = "".join(
        f"""\
      (vim.host.PciPassthruInfo) {{
         id = "{name}",
         dependentDevice = "{name}",
         passthruEnabled = {str(on).lower()},
         passthruCapable = true,
         passthruActive = {str(state["passed"][name]).lower()},
      }},
"""
        for name, on in state["passthrough"].items()
    )
    listed = f"   pciPassthruInfo = (vim.host.PciPassthruInfo) [\n{rows}   ],\n"
    return f"(vim.host.ConfigInfo) {{\n{listed}}}\n"


def get_state(one):
    return f"Retrieved runtime info\nPowered {one['power']}\n"


def reload(one):
    if one["power"] == "on":
        return ""
    lines = Path(path(one)).read_text().splitlines()
    read = [LINE.match(line) for line in lines if line.strip() and not line.startswith("#")]
    if not all(read) or not any(found[1] == "displayName" for found in read):
        raise Refused("Reload failed: the configuration file cannot be read")
    one["keys"] = {found[1]: found[2] for found in read}
    return ""


def power_on(one):
    if one["power"] == "on":
        raise Refused("Powering on VM:\nPower on failed")
    keys = {key.lower(): value for key, value in one["keys"].items()}
    memory = int(keys["memsize"])
    reserved = int(keys.get("sched.mem.min", "0"))
    # As documented: a latency-sensitive machine, or one with a passed-through device, must have
    # all of its memory reserved; since 6.0 the former must have CPU time reserved too (this text
    # is unconfirmed).
    high = keys.get("sched.cpu.latencysensitivity") == "high"
    if (high or keys.get("pcipassthru0.present") == "TRUE") and reserved < memory:
        why = f"memory reservation (sched.mem.min) should be equal to memsize({memory})."
        raise Refused(f"Powering on VM:\nPower on failed\nInvalid memory setting: {why}")
    if high and not int(keys.get("sched.cpu.min", "0")):
        why = "Invalid CPU reservation for the latency-sensitive VM, (sched.cpu.min)"
        raise Refused(f"Powering on VM:\nPower on failed\n{why} should be at least 5000 MHz.")
    affinity = keys.get("sched.cpu.affinity", "all")
    if affinity != "all" and len(affinity.split(",")) < int(keys["numvcpus"]):
        raise Refused("Powering on VM:\nPower on failed\nInvalid affinity specification")
    one["power"] = "on"
    return "Powering on VM:\n"


def power_off(one):
    if one["power"] == "off":
        raise Refused("Powering off VM:\nPower off failed")
    one["power"] = "off"
    return "Powering off VM:\n"


def shutdown(one):
    if one["power"] == "off":
        raise Refused("Shutdown guest failed: the attempted operation cannot be performed in the "
                      "current state (Powered off).")  # fmt: skip
    one["power"] = "off"
    return ""


VERBS = {
    "vmsvc/power.getstate": get_state,
    "vmsvc/power.on": power_on,
    "vmsvc/power.off": power_off,
    "vmsvc/power.shutdown": shutdown,
    "vmsvc/reload": reload,
}
