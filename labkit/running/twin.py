"""A bare machine beside a hypervisor that is no Linux: what a document calls native runs there."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from labkit.condition import Condition
from labkit.study import Study

TWIN = "native"
"""Its role in a lab file."""
SERVER = "server"


def beside(study: Study, guests: Collection[str]) -> Study:
    """The study with the twin in the server's place, in each condition that has no guest.

    A study without guests asks about the hypervisor itself, so a twin would answer for another.
    """
    conditions = tuple(c if _is_in(c, guests) else _move(c) for c in study.conditions)
    if not any(_is_in(condition, guests) for condition in study.conditions):
        return study
    return replace(study, conditions=conditions)


def _is_in(condition: Condition, guests: Collection[str]) -> bool:
    if condition.in_guest is not None:
        return condition.in_guest
    players = {player for role in condition.roles for player in condition.players(role)}
    return bool(players & {*guests})


def _move(condition: Condition) -> Condition:
    players_of = {role: condition.players(role) for role in (SERVER, *condition.roles)}
    roles = {
        role: tuple(TWIN if player == SERVER else player for player in players)
        for role, players in players_of.items()
    }
    there: dict[str, Any] = {"role": TWIN}
    settings, optional = (
        tuple(replace(s, **there) if vars(s).get("role") == SERVER else s for s in settings_of)
        for settings_of in (condition.settings, condition.optional)
    )
    return replace(condition, roles=roles, settings=settings, optional=optional)
