"""labkit without one of the pieces that reach into paramiko: what that piece gains is the rest."""

from contextlib import nullcontext

import paramiko
from paramiko.auth_handler import AuthHandler
from paramiko.packet import Packetizer

from labkit.ssh import connection, conversation, first, packets
from labkit.ssh.conversation import Conversation
from labkit.ssh.packets import Packets
from labkit.ssh.sending import Sending


def reading():
    """paramiko's thread reads all answers, and wakes who waits."""

    class Unshared(Packets):
        def set_inbound_cipher(self, *given, **named):
            super().set_inbound_cipher(*given, **named)
            self._shared = False

    conversation.Packets = Unshared


def opening():
    """paramiko opens AES-GCM."""
    whole = Packets.set_inbound_cipher

    def inbound(self, *given, **named):
        whole(self, *given, **named)
        self._opener = None

    Packets.set_inbound_cipher = inbound


def sealing():
    """paramiko seals AES-GCM."""
    Sending.set_outbound_cipher = Packetizer.set_outbound_cipher


def in_one_part():
    """Each message is sent by itself."""
    Sending.in_one = Sending.later = lambda self: nullcontext()
    Conversation._activate_outbound = paramiko.Transport._activate_outbound


def acknowledging():
    """The kernel acknowledges when it likes."""
    packets.HASTY_PARTS = 0


def one_breath():
    """Who we are is said once sshd has answered that it may be."""
    conversation._Login = AuthHandler


def kex_init():
    """paramiko makes its list of algorithms."""
    del Conversation._send_kex_init


def keys():
    """paramiko computes keys."""
    del Conversation._compute_key
    del Conversation._parse_newkeys


def log():
    """paramiko makes its lines of a log."""
    del Conversation._log


def order_of_kex():
    """paramiko's order of key exchanges."""
    connection.Client.preferred_kex = paramiko.Transport._preferred_kex


def channels():
    """paramiko's thread hears the answer to a wish for a channel, and to one for a command."""
    del Conversation.open_session


class _Plain(paramiko.Transport):
    """paramiko as it comes, as a connection of labkit."""

    def __init__(self, end):
        super().__init__(end)
        self._packets = self

    in_one = staticmethod(nullcontext)
    needed = staticmethod(nullcontext)
    stirs = property(lambda self: not self.is_active())
    came, lines = float("inf"), ()

    def exchange_keys(self, seconds):
        yield None
        self.banner_timeout = seconds
        self.start_client(timeout=seconds)
        return True

    def offer(self, user, key, seconds):
        yield None
        self.auth_timeout = seconds
        self.auth_publickey(user, key)

    def start(self):
        if self.ident is None:
            super().start()

    def wait(self, bell, seconds, give=None):
        bell.wait(seconds)


def anything():
    """paramiko as it comes, with TCP_NODELAY, under the shell loop; a login takes a thread."""
    members = {
        name: value for name, value in vars(connection.Client).items()
        if name not in ("wait", "stirs", "_end", "__dict__", "__weakref__")
    }  # fmt: skip
    own = members.pop("__init__").__code__
    assert "set_keepalive" in own.co_names

    def begin(self, way, algorithms):
        _Plain.__init__(self, way.end)
        self._way, self._algorithms = way, algorithms
        self.shown, self.kex, self._closing = b"", "", False
        self.farewell = self.lost_on_the_way = ""
        self.set_keepalive(connection.ALIVE_SECONDS)

    def close(self):
        paramiko.Transport.close(self)
        self._way.close()

    members |= {"__init__": begin, "close": close}
    for name in ("_verify_key", "ended_by"):
        members.pop(name)

    def verify(self, host_key, sig):
        paramiko.Transport._verify_key(self, host_key, sig)
        self.shown = host_key

    members["_verify_key"] = verify
    connection.Client = type("Client", (_Plain,), members)
    steps()


def steps():
    """A thread logs in for each host."""

    def none(self):
        yield None
        return None

    first.First.steps = none


PIECES = {
    one.__name__: one for one in (
        reading, opening, sealing, in_one_part, acknowledging, one_breath, kex_init, keys, log,
        order_of_kex, channels, steps, anything,
    )
}  # fmt: skip
