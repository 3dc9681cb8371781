"""Two settings on the same hosts, together and nested, in both orders: what becomes of them."""

from contextlib import ExitStack
from itertools import combinations, permutations

from pairs_page import BACK, REFUSED, Pair, devices, label

from labkit.changes.in_force import applied
from labkit.changes.journal import hello
from labkit.changes.plan import plan
from labkit.errors import BadInput, SettingRefused


def pairs(settings, guests=()):
    """Each two settings of one device, and of each that has several values two of them."""
    again = [tuple(setting[:2]) for setting in settings if setting[1:]]
    both = combinations([setting[0] for setting in settings], 2)
    one = [pair for pair in both if devices(pair[0], guests) & devices(pair[1], guests)]
    return [*one, *again]


def texts(hosts, settings):
    """What the hosts show of them; a guest may have been started again, so it is logged in anew."""
    for role in hosts:
        if role.startswith("guest"):
            hosts[role].close()
    return {step.thing: (step.text, step.why) for step in plan(settings, hosts).steps}


def outcome(hosts, blocks, pair, before):
    """What becomes of these blocks of settings, one inside the other."""
    with ExitStack() as held:
        for block in blocks:
            before = before if block is blocks[0] else texts(hosts, pair)
            try:
                held.enter_context(applied(block, hosts))
            except (SettingRefused, BadInput) as why:
                changed = texts(hosts, pair) != before
                return f"{REFUSED}, and changed something: {why}" if changed else REFUSED
            wrong = [s.thing for s in plan(block, hosts).steps if s.current != s.setting.wanted]
            if wrong:
                return f"not made: {', '.join(wrong)}"
    return BACK


def tried(hosts, pair):
    """What becomes of a pair each way, and what was not as it should be."""
    before, odd, found = texts(hosts, pair), [], []
    for order in permutations(pair):
        for blocks in ([order], [(one,) for one in order]):
            found.append(outcome(hosts, blocks, pair, before))
            if found[-1] not in (BACK, REFUSED):
                odd.append(found[-1])
            if texts(hosts, pair) != before:
                odd.append("something stayed")
            odd += [f"open: {one}" for host in hosts.values() for one in hello(host).open]
    together, nested, swapped, outside = found
    return Pair(together, swapped, nested, outside), odd


def of_part(hosts, some):
    """What becomes of some of the pairs by their labels, and what was not as it should be."""
    found, odd = {}, []
    for pair in some:
        became, wrong = tried(hosts, pair)
        odd += [f"{' and '.join(map(str, pair))}: {why}" for why in wrong]
        found[label(pair)] = became, pair[0].thing == pair[1].thing
    return found, odd
