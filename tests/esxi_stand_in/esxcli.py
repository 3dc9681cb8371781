"""The commands of `esxcli` that labkit uses, with its default output."""

from pathlib import Path

from forms import Refused, choice, fields, named, number, options, table

COMMANDS = {}


def command(name, *known):
    """The function below answers this command, which takes these options."""

    def keep(answer):
        COMMANDS[tuple(name.split())] = known, answer
        return answer

    return keep


def run(state, words):
    """Find the command by its longest name, then its options; most of them print nothing."""
    for n in range(len(words), 0, -1):
        if tuple(words[:n]) in COMMANDS:
            known, answer = COMMANDS[tuple(words[:n])]
            return answer(state, options(words[n:], known)) or ""
    raise Refused(f"Error: Unknown command or namespace {' '.join(words)}")


# --- system -----------------------------------------------------------------------------------


def _option(path, option):
    text = option["type"] == "string"
    return fields([
        ("Path", path), ("Type", option["type"]),
        ("Int Value", 0 if text else option["value"]),
        ("Default Int Value", 0 if text else option["default"]),
        ("Min Value", option["min"]), ("Max Value", option["max"]),
        ("String Value", option["value"] if text else ""),
        ("Default String Value", option["default"] if text else ""),
        ("Valid Characters", "*" if text else ""), ("Description", "(stand-in)"),
        ("Host Specific", "false"), ("Impact", "none"),
    ])  # fmt: skip


@command("system settings advanced list", "-o --option+")
def advanced_list(state, o):
    path = o["option"]
    return _option(path, named("option", state["advanced"], path))


@command("system settings advanced set", "-o --option+", "-i --int-value", "-s --string-value")
def advanced_set(state, o):
    option = named("option", state["advanced"], o["option"])
    if option["type"] == "integer":
        if "int-value" not in o:
            raise Refused("Error: the option is an integer; use -i")
        option["value"] = number(o["option"], o["int-value"], option["min"], option["max"])
    else:
        if "string-value" not in o:
            raise Refused("Error: the option is a string; use -s")
        legal = option["of"] or [o["string-value"]]
        option["value"] = choice(o["option"], o["string-value"], legal)


@command("system settings kernel list", "-o --option+")
def kernel_list(state, o):
    one = named("kernel setting", state["kernel"], o["option"])
    about = "Enable the thing, TRUE or not"
    names = ["Configured", "Runtime", "Default"]
    values = [one["configured"], one["runtime"], "TRUE"]
    if state["kernel_layout"] == "last":
        head, row = ["Description", *names], [about, *values]
    else:
        lower = state["kernel_layout"] == "lower"
        values = [value.lower() for value in values] if lower else values
        head, row = [*names, "Description"], [*values, about]
    return table(["Name", "Type", *head], [[o["option"], one["type"], *row]])


@command("system settings kernel set", "-s --setting+", "-v --value+")
def kernel_set(state, o):
    one = named("kernel setting", state["kernel"], o["setting"])
    one["configured"] = choice(o["setting"], o["value"].upper(), ("TRUE", "FALSE"))


@command("system module parameters list", "-m --module+")
def parameters_list(state, o):
    module = named("module", state["modules"], o["module"])
    rows = [
        [name, "string", module["options"].get(name, ""), means]
        for name, means in module["means"].items()
    ]
    return table(["Name", "Type", "Value", "Description"], rows)


@command("system module parameters set", "-m --module+", "-p --parameter-string+")
def parameters_set(state, o):
    module = named("module", state["modules"], o["module"])
    options = dict(pair.partition("=")[::2] for pair in o["parameter-string"].split())
    for name in options:
        choice(f"parameter of {o['module']}", name, module["means"])
    module["options"] = options


@command("system maintenanceMode set", "-e --enable+")
def maintenance_set(state, o):
    wanted = choice("enable", o["enable"], ("true", "false")) == "true"
    if wanted and any(one["power"] == "on" for one in state["machines"].values()):
        raise Refused("The operation is not allowed while virtual machines are powered on.")
    state["maintenance"] = wanted


@command("system shutdown reboot", "-d --delay", "-r --reason+")
def reboot(state, o):
    """What was only configured becomes what runs; the connection is not cut."""
    if not state["maintenance"]:
        raise Refused("The system is not in maintenance mode; it cannot be shut down.")
    for one in state["kernel"].values():
        one["runtime"] = one["configured"]
    state["passed"] = dict(state["passthrough"])
    for path in Path("/tmp").glob("labkit-*"):  # it is in memory
        path.unlink()


# --- network ----------------------------------------------------------------------------------


@command("network nic coalesce get", "-n --vmnic")
def coalesce_get(state, o):
    names = [o["vmnic"]] if "vmnic" in o else list(state["nics"])
    rows = []
    for name in names:
        m = named("NIC", state["nics"], name)["moderation"]
        values = [m["rx"], m["rx_frames"], m["tx"], m["tx_frames"], m["arx"], m["atx"], 0]
        rows.append([name, *values])
    return table([
        "NIC", "RX microseconds", "RX maximum frames", "TX microseconds", "TX Maximum frames",
        "Adaptive RX", "Adaptive TX", "Sample interval seconds",
    ], rows)  # fmt: skip


@command("network nic coalesce set", "-n --vmnic+", "-r --rx-usecs", "-t --tx-usecs",
         "-R --rx-max-frames", "-T --tx-max-frames",
         "-a --adaptive-rx", "-A --adaptive-tx")  # fmt: skip
def coalesce_set(state, o):
    moderation = named("NIC", state["nics"], o["vmnic"])["moderation"]
    new = dict(moderation)
    for option, key in (("rx-usecs", "rx"), ("tx-usecs", "tx"), ("rx-max-frames", "rx_frames"),
                        ("tx-max-frames", "tx_frames")):  # fmt: skip
        if option in o:
            new[key] = number(option, o[option], 0, 1022)
    for option, key in (("adaptive-rx", "arx"), ("adaptive-tx", "atx")):
        if option in o:
            on = choice(option, o[option].lower(), ("true", "false")) == "true"
            new[key] = "On" if on else "Off"
    moderation.update(new)


@command("network nic ring current get", "-n --nic-name+")
def ring_get(state, o):
    rings = named("NIC", state["nics"], o["nic-name"])["rings"]
    return fields([("RX", rings["rx"]), ("RX Mini", 0), ("RX Jumbo", 0), ("TX", rings["tx"])])


@command("network nic ring current set", "-n --nic-name+", "-r --rx", "-t --tx")
def ring_set(state, o):
    rings = named("NIC", state["nics"], o["nic-name"])["rings"]
    asked = {"rx": o.get("rx", str(rings["rx"])), "tx": o.get("tx", str(rings["tx"]))}
    rings.update({key: number(key, text, 64, rings["most"]) for key, text in asked.items()})


@command("network ip interface list")
def interface_list(state, o):
    return "\n".join(
        f"{name}\n" + fields([
            ("Name", name), ("Enabled", "true"), ("Portset", one["switch"]),
            ("Portgroup", one["group"]), ("Netstack Instance", "defaultTcpipStack"),
            ("MTU", one["mtu"]), ("TSO MSS", 65535),
        ])
        for name, one in state["interfaces"].items()
    )  # fmt: skip


@command("network ip interface set", "-i --interface-name+", "-m --mtu+")
def interface_set(state, o):
    one = named("interface", state["interfaces"], o["interface-name"])
    # Above the switch's MTU it would lose its packets, so the host says no.
    one["mtu"] = number("MTU", o["mtu"], 1280, state["switches"][one["switch"]])


@command("network ip interface tag get", "-i --interface-name+")
def tag_get(state, o):
    tags = named("interface", state["interfaces"], o["interface-name"])["tags"]
    return f"   Tags: {', '.join(tags)}\n"


@command("network ip interface tag add", "-i --interface-name+", "-t --tagname+")
def tag_add(state, o):
    tags = named("interface", state["interfaces"], o["interface-name"])["tags"]
    tags.append(choice("tag", o["tagname"], ("Management", "VMotion", "VSAN")))
    tags[:] = dict.fromkeys(tags)


@command("network ip interface tag remove", "-i --interface-name+", "-t --tagname+")
def tag_remove(state, o):
    tags = named("interface", state["interfaces"], o["interface-name"])["tags"]
    tags.remove(choice("tag", o["tagname"], tags))


@command("network vswitch standard list", "-v --vswitch-name")
def switch_list(state, o):
    names = [o["vswitch-name"]] if "vswitch-name" in o else list(state["switches"])
    return "\n".join(
        f"{name}\n" + fields([("Name", name), ("MTU", named("switch", state["switches"], name))])
        for name in names
    )


@command("network vswitch standard set", "-v --vswitch-name+", "-m --mtu+")
def switch_set(state, o):
    named("switch", state["switches"], o["vswitch-name"])
    state["switches"][o["vswitch-name"]] = number("MTU", o["mtu"], 1280, 9000)


# --- hardware, storage, virtual machines --------------------------------------------------------


@command("hardware cpu list")
def cpu_list(state, o):
    pairs = [("Id", 0), ("Package Id", 0), ("Core Speed", 2500000000), ("Bus Speed", 100000000)]
    return "".join(f"CPU: {n}\n{fields(pairs)}" for n in range(8))


@command("hardware pci pcipassthru list")
def passthrough_list(state, o):
    rows = [[name, str(on).lower()] for name, on in state["passthrough"].items()]
    return table(["Device ID", "Enabled"], rows)


@command("hardware pci pcipassthru set", "-d --device-id+", "-e --enable+", "-a! --apply-now")
def passthrough_set(state, o):
    on = choice("enable", o["enable"], ("true", "false")) == "true"
    if named("device", state["passthrough"], o["device-id"]) and on:
        raise Refused("Unable to configure the PCI device: "
                      "Device owner is already configured to passthru.")  # fmt: skip
    if "apply-now" in o and state["release"] < "7":
        raise Refused("Error: Invalid option -a")
    state["passthrough"][o["device-id"]] = on
    if "apply-now" in o and o["device-id"] in state["at_once"]:
        state["passed"][o["device-id"]] = on


@command("storage core device list", "-d --device+")
def device_list(state, o):
    depth = named("device", state["devices"], o["device"])
    said = fields([
        ("Display Name", "Local disk"), ("Device Type", "Direct-Access"),
        ("Device Max Queue Depth", 64), ("No of outstanding IOs with competing worlds", depth),
    ])  # fmt: skip
    return f"{o['device']}\n{said}"


@command("storage core device set", "-d --device+", "-O --sched-num-req-outstanding+")
def device_set(state, o):
    named("device", state["devices"], o["device"])
    state["devices"][o["device"]] = number("queue", o["sched-num-req-outstanding"], 1, 256)
