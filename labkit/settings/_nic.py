"""The interface that carries test traffic: told by its name in lab.toml, held to by what it is."""

from __future__ import annotations

from dataclasses import replace

from labkit.errors import BadInput
from labkit.host import Host
from labkit.setting import Way, Words
from labkit.settings._ways import matching, script

NIC = "@nic"
"""Stands for the interface's name in the words of a way."""
# A device is where it sits on its bus, and its permanent address; one of software is its name.
ON_NIC = """\
dev=$1 known=$2; shift 2
told() {
    at=$(cd -P "/sys/class/net/$1/device" 2>/dev/null && pwd) || { echo software; return; }
    at=${at%/virtio*} mac=$(ethtool -P "$1" 2>/dev/null)
    echo "${at##*/} ${mac##*: }"
}
now=$(told "$dev")
if [ -z "$known" ]; then echo "$now"
elif [ "$now" != "$known" ]; then
    was=$dev dev=
    for path in /sys/class/net/*; do
        [ "$known" = software ] || [ "$(told "${path##*/}")" != "$known" ] || dev=${path##*/}
    done
    [ "$dev" ] || { echo "the interface that was $was ($known) is gone" >&2; exit 1; }
fi
for word; do
    shift
    [ "$word" != @nic ] || word=$dev
    set -- "$@" "$word"
done
exec "$@\""""


def nic(host: Host, pattern: str = r"[A-Za-z][A-Za-z0-9_.-]{0,14}", like: str = "eth1") -> str:
    """The interface of the host that carries test traffic."""
    if not host.interface:
        raise BadInput(
            f"{host.name}: which interface carries test traffic is not known",
            hint='add interface = "..." to its table in lab.toml',
        )
    matching(f"interface of {host.name}", host.interface, pattern, like)
    return host.interface


def of_nic(host: Host, way: Way) -> Way:
    """A way of the test interface of a Linux host, whose words say NIC.

    From the first look on it is about that very device: one that gets another name is found again,
    and another that got its name is left alone.
    """
    dev = nic(host)

    def held(text: str) -> tuple[Way, str]:
        device, _, shown = text.partition("\n")
        return _on(way, dev, device), shown

    return replace(_on(way, dev, ""), held=held)


def _on(way: Way, dev: str, device: str) -> Way:
    def on(words: Words) -> Words:
        return script(ON_NIC, dev, device, *words)

    return replace(way, reads=on(way.reads), writes=lambda value: tuple(map(on, way.writes(value))))
