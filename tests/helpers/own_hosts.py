"""A lab.toml for hosts of a box, as somebody writes it who knows nothing of a box."""

import json

HOST = """
[hosts.{role}]
control = "{at.control}"
address = "{host.address}"
interface = "{interface}"
user = "{at.user}"
port = {port}
key = "{at.key}"
"""


def row(role, host, interface=""):
    """The table of a host, by the interface that it has now."""
    at = host.transport.at
    return HOST.format(
        role=role, host=host, interface=interface or host.interface, at=at, port=at.port or 22
    )


def described(lab, file, tolerates, roles=(), known_hosts=None):
    """The file, with these roles of the lab, or with all; without known_hosts none is trusted."""
    lines = ['ssh_config = "none"', f"tolerates = {json.dumps(tolerates)}"]
    lines += [f'known_hosts = "{known_hosts}"'] if known_hosts else []
    file.write_text(
        "\n".join([*lines, *(row(role, lab.host(role)) for role in roles or lab.hosts)])
    )
    return file
