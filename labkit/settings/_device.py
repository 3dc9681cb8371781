"""Devices that can get another name: held to by what they are from the first look on."""

from dataclasses import dataclass, replace

from labkit.machine.scripts import beside
from labkit.setting import Details, Way, Words
from labkit.settings._ways import script

# FOLDER WHAT SIGN DEV KNOWN COMMAND...: with nothing known the device says what it is; else the one
# that says so is looked for. SIGN in the command's words becomes its name.
HOLD = beside(__file__, "_device_hold.sh")


@dataclass(frozen=True)
class Devices:
    """Devices of one sort, all in a folder of /sys."""

    what: str
    folder: str
    sign: str
    """Stands for a device's name in the words of a way."""
    told: str
    """A function for the shell: what the device of the name $1 is; `software` when only that."""

    def way(self, way: Way, dev: str) -> Way:
        """A way whose words say the sign: from the first look on it is about that very device.

        One that gets another name is found again, and another that got its name is left alone.
        """

        def hold(text: str) -> tuple[Way, str]:
            device, _, value = text.partition("\n")
            return self._on(way, dev, device), value

        return self._on(way, dev, "").plus(Details(held=hold))

    def _on(self, way: Way, dev: str, device: str) -> Way:
        def on(words: Words) -> Words:
            return script(self.told + HOLD, self.folder, self.what, self.sign, dev, device, *words)

        return replace(
            way, reads=on(way.reads), writes=lambda value: tuple(map(on, way.writes(value)))
        )
