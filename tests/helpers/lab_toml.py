"""The text of a lab.toml, as somebody writes it who knows nothing of a box."""

import json


def table(role, **fields):
    """What it says of one host."""
    return f"[hosts.{role}]\n" + _lines(fields)


def reached_at(at):
    """How the address of an sshd stands in such a table."""
    return {"control": at.control, "port": at.port or 22, "user": at.user, "key": at.key}


def row(role, host, interface=""):
    """The table of a host of a box, by the interface that it has now."""
    interface = interface or host.interface
    at = reached_at(host.transport.at)
    return table(role, **at, address=host.address, interface=interface)


def lab_toml(file, *tables, **head):
    """The file of these tables; what holds for all of them is at its head."""
    file.write_text("\n".join([_lines(head), *tables]))
    return file


def described(lab, file, tolerates, roles=(), **head):
    """That of these roles of a box, or of all of them."""
    rows = (row(role, lab.host(role)) for role in roles or lab.hosts)
    return lab_toml(file, *rows, ssh_config="none", tolerates=tolerates, **head)


def _lines(fields):
    return "".join(f"{key} = {json.dumps(value, default=str)}\n" for key, value in fields.items())
