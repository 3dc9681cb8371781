"""What labkit/ssh uses of paramiko that paramiko calls private: all of it, by class.

A new paramiko may change any of it; `tests/ssh/test_private.py` says which is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paramiko
from paramiko.agent import AgentSSH
from paramiko.auth_handler import AuthHandler
from paramiko.packet import Packetizer

PRIVATE: dict[type, tuple[str, ...]] = {
    paramiko.Transport: (
        "_activate_outbound", "_add_K", "_channel_handler_table", "_channels", "_check_banner",
        "_compute_key", "_enforce_strict_kex", "_expect_packet", "_expected_packet",
        "_handler_table", "_kex_info", "_latest_kex_init", "_log", "_next_channel",
        "_parse_disconnect", "_parse_newkeys", "_preferred_kex", "_sanitize_packet_size",
        "_sanitize_window_size", "_send_kex_init", "_send_message", "_send_user_message",
        "_verify_key", "agreed_on_strict_kex",
    ),
    paramiko.Channel: (
        "_check_add_window", "_feed", "_feed_extended", "_handle_request", "_request_failed",
        "_set_transport", "_set_window", "_unlink", "_window_adjust",
    ),
    Packetizer: ("_check_keepalive", "_trigger_rekey"),
    AuthHandler: ("_handler_table", "_parse_service_accept", "_request_auth"),
    AgentSSH: ("_connect",),
}  # fmt: skip


def hidden(thing: object) -> Any:
    """The same, with the parts that its types leave out."""
    return thing


if TYPE_CHECKING:

    class OpenTransport(paramiko.Transport):
        """A connection of paramiko, with the parts that its types leave out."""

        agreed_on_strict_kex: bool
        _channel_handler_table: dict[int, Any]
        _channels: Any
        _expected_packet: Any
        _handler_table: dict[int, Any]
        _kex_info: dict[str, Any]

        def __getattr__(self, name: str) -> Any: ...
        def _verify_key(self, host_key: bytes, sig: bytes) -> None: ...
        def _compute_key(self, name: str, size: int) -> bytes: ...
        def _activate_outbound(self) -> None: ...
        def _parse_newkeys(self, message: paramiko.Message) -> None: ...
        def _parse_disconnect(self, message: paramiko.Message) -> None: ...
        def _log(self, level: int, text: Any, *words: Any) -> None: ...
        def _send_message(self, data: paramiko.Message) -> None: ...
        def _send_user_message(self, data: paramiko.Message) -> None: ...
        def _check_banner(self) -> None: ...
        def _expect_packet(self, *kinds: int) -> None: ...
        def _enforce_strict_kex(self, kind: int) -> None: ...
        def _next_channel(self) -> int: ...
        def _sanitize_window_size(self, size: int | None) -> int: ...
        def _sanitize_packet_size(self, size: int | None) -> int: ...
        def _add_K(self, message: paramiko.Message) -> None: ...

    class OpenPacketizer(Packetizer):
        """Its packets, in the same way."""

        def _check_keepalive(self) -> None: ...
        def _trigger_rekey(self) -> None: ...

    class OpenAuthHandler(AuthHandler):
        """Its logins, in the same way."""

        transport: Any

        def _request_auth(self) -> None: ...
        def _parse_service_accept(self, message: paramiko.Message) -> None: ...

else:
    OpenTransport, OpenPacketizer, OpenAuthHandler = paramiko.Transport, Packetizer, AuthHandler
