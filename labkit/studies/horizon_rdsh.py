"""Remote desktop sessions: users on one host by how their pictures are sent."""

from labkit.claims import published
from labkit.condition import Condition
from labkit.settings.egress import Link
from labkit.study import Study
from labkit.workloads.desktop_sessions import DesktopSessions

LINES_MBIT = {"": 1000, ", slow line": 50}
"""The rates at which pictures leave the server: a LAN's, and that of a home."""
WAYS = {
    "Raw": "every pixel as it is",
    "ZRLE": "run lengths and zlib",
    "Tight": "palettes and zlib",
}


def _condition(way: str, line: str) -> Condition:
    rate = LINES_MBIT[line]
    return Condition(
        way + line,
        means="a remote display protocol between sessions and client; the announcement names none",
        here=f"RFB from Xvnc, encoded as {way} ({WAYS[way]}), over {rate} Mbit/s",
        settings=(Link(rate, role="server"),),
        knobs={"encoding": way.lower()},
        expects=("retransmits", "busy client", "steal"),
        in_guest=False,
    )


study = Study(
    name="horizon_rdsh",
    title="Remote desktop sessions: how many users one host bears",
    question="How many users of remote desktops does one host bear before 95 % of their answers "
    "come too late? Does it matter how pictures are sent?",
    source="Horizon 6 RDSH Performance & Best Practices (announcement of a paper)",
    workload=DesktopSessions(),
    quick={"repeats": 1, "duration": 1},
    few=("Raw, slow line", "Tight, slow line"),
    metric="users",
    unit="1",
    topology="uplink",
    conditions=tuple(_condition(way, line) for line in LINES_MBIT for way in WAYS),
    claims=published.of("horizon_rdsh"),
)
