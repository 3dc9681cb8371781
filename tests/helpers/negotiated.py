"""How a connection of labkit is protected, as paramiko keeps it to itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Negotiated:
    """What protects a connection."""

    host_key: str
    cipher: str
    mac: str
    """Empty when the cipher protects against changes itself, as GCM does."""
    strict_kex: bool
    """Whether both sides count messages from the first (against Terrapin)."""
    server: str


def negotiated(client):
    """How this connection is protected."""
    aead = client._cipher_info[client.local_cipher].get("is_aead")
    return Negotiated(
        str(client.host_key_type),
        str(client.local_cipher),
        "" if aead else str(client.local_mac),
        client.agreed_on_strict_kex,
        client.remote_version,
    )
