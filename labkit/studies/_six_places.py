"""The six set-ups of the container post's network studies: four places, two on two networks."""

from dataclasses import replace

from labkit.condition import Condition
from labkit.studies._places import place

SIX = (
    ("Native", "bridge", ""),
    ("Native-Docker", "bridge", ""),
    ("Native-Docker", "host", "Native-Docker-HostNet"),
    ("VM", "bridge", ""),
    ("VM-Docker", "bridge", ""),
    ("VM-Docker", "host", "VM-Docker-HostNet"),
)


def beside_its_host(condition: Condition, *expects: str) -> Condition:
    """The same for a load that also looks at the machine that its server is or runs on."""
    return replace(
        condition,
        roles={**condition.roles, "host": "server"},
        expects=(*condition.expects, *expects),
    )


def six_places(*expects: str) -> tuple[Condition, ...]:
    """All six, in the document's order; `expects` are gates that each trips by design."""
    return tuple(beside_its_host(place(*names), *expects) for names in SIX)
