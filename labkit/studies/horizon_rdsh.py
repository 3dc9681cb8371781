"""Remote desktop sessions: users on one host by how their pictures are sent."""

from labkit.condition import Condition
from labkit.settings.egress import Link
from labkit.study import Study
from labkit.workloads.desktop_sessions import DesktopSessions

LINES_MBIT = {"": 1000, ", slow line": 50}
"""The rates at which pictures leave the server: a LAN's, and that of a home."""
WAYS = {"Raw": "every pixel as it is", "ZRLE": "run lengths and zlib", "Tight": "palettes and zlib"}
TASKS = {"writing": "write in LibreOffice Writer", "browsing": "browse in NetSurf"}
"""Those of other users than readers. NetSurf takes 74 MiB, and lays pages out by their styles."""


def _condition(name: str, line: str, here: str, **knobs: str) -> Condition:
    rate = LINES_MBIT[line]
    return Condition(
        name,
        means="a remote display protocol between sessions and client; the announcement names none",
        here=f"{here}, over {rate} Mbit/s", settings=(Link(rate, role="server"),), knobs=knobs,
        expects=("retransmits", "busy client", "steal"), in_guest=False,
    )  # fmt: skip


study = Study(
    name="horizon_rdsh",
    title="Remote desktop sessions: how many users one host bears",
    question="How many users of remote desktops does one host bear before more than 5 % of their "
    "answers come too late? Does it matter how pictures are sent?",
    source="Horizon 6 RDSH Performance & Best Practices (announcement of a paper)",
    workload=DesktopSessions(), quick={"repeats": 1, "duration": 1},
    few=("Raw, slow line", "Tight, slow line"),
    metric="users", unit="1", topology="uplink",
    conditions=(
        *(_condition(way + line, line, f"RFB from Xvnc, encoded as {way} ({WAYS[way]})",
                     encoding=way.lower()) for line in LINES_MBIT for way in WAYS),
        *(_condition(f"RDP{line}", line, "RDP from xrdp to FreeRDP, timed on the client's screen",
                     protocol="rdp") for line in LINES_MBIT),
        *(_condition(f"Tight [task={task}]", "",
                     f"users {TASKS[task]}, by RFB from Xvnc, encoded as Tight",
                     encoding="tight", task=task) for task in TASKS),
    ),
)  # fmt: skip
