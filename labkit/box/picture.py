"""A box as a picture: who is on which network, and on which CPUs."""

from dataclasses import dataclass
from html import escape

from labkit.box.status import BoxStatus, HostStatus, LinkStatus

WIDTH, HEIGHT, GAP, TOP = 168, 92, 20, 96
GUEST_HEIGHT = 64
# Readable on white and on black: a picture does not know the page that it is on.
INK, FAINT, GOOD, BAD = "#6e7681", "#8b949e", "#1a7f5a", "#c0504d"


@dataclass(frozen=True)
class Picture:
    """An SVG picture that a notebook shows."""

    svg: str
    text: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"image/svg+xml": self.svg, "text/plain": self.text}


def draw(status: BoxStatus) -> Picture:
    """Hosts side by side below the two networks, each with its guests in it."""
    homes = {machine.name: machine.on for machine in (*status.guests, *status.containers)}
    container_names = {container.name for container in status.containers}
    hosts = [host for host in status.hosts if host.role not in homes]
    on = {role: {home, homes.get(home, "")} for role, home in homes.items()}
    columns = [
        (host, [inner for inner in status.hosts if host.role in on.get(inner.role, ())])
        for host in hosts
    ]
    tallest = max((len(guests) for _, guests in columns), default=0)
    width = GAP + len(columns) * (WIDTH + GAP)
    height = TOP + HEIGHT + tallest * (GUEST_HEIGHT + GAP // 2) + GAP
    parts = [
        _line(GAP, 36, width - GAP, 36, "4 3"), _words(GAP, 28, "control: SSH, never measured"),
        _line(GAP, 66, width - GAP, 66), _words(GAP, 58, "data: test traffic"),
    ] if columns else []  # fmt: skip
    notes = [
        *map(_describe, status.links),
        *(f"disks of {guest.name}: " + ", ".join(f"{d} {t}" for d, t in guest.disks.items())
          for guest in status.guests if guest.disks),
    ]  # fmt: skip
    if columns and notes:
        parts += [_words(GAP, height + 16 * n, note) for n, note in enumerate(notes)]
        height += 16 * len(notes)
        width = max(width, GAP + 8 * max(map(len, notes)))
    for number, (host, guests) in enumerate(columns):
        parts += _host(GAP + number * (WIDTH + GAP), host, guests, container_names)
    kind = f", guests by {status.accelerator}" if status.accelerator else ""
    kind += f", containers by {status.engine}" if status.engine else ""
    text = f"box {status.name} is {status.state}: {', '.join(h.role for h in status.hosts)}{kind}"
    width = max(width, 240)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img" font-family="sans-serif">'
        f"<title>{escape(text)}</title>{''.join(parts)}</svg>"
    )
    return Picture(svg, text)


def _describe(link: LinkStatus) -> str:
    notes = {key: f" (measured {text})" for key, text in link.measured.items()}
    texts = [f"{key} {text}{notes.get(key, '')}" for key, text in link.asked.items()]
    return f"link of {link.role}: {', '.join(texts)}"


def _host(
    x: int, host: HostStatus, guests: list[HostStatus], container_names: set[str]
) -> list[str]:
    inner = len(guests) * (GUEST_HEIGHT + GAP // 2)
    middle = x + WIDTH // 2
    parts = [
        _line(middle + 24, 36, middle + 24, TOP, "4 3"), _line(middle + 56, 66, middle + 56, TOP),
        _box(x, TOP, WIDTH, HEIGHT - GAP // 2 + inner, host.alive), *_facts(x, TOP, host),
    ]  # fmt: skip
    for number, guest in enumerate(guests):
        top = TOP + HEIGHT - GAP + number * (GUEST_HEIGHT + GAP // 2) + GAP // 2
        parts += [_box(x + 8, top, WIDTH - 16, GUEST_HEIGHT, guest.alive, 10)]
        kind = "container" if guest.role in container_names else "virtual machine"
        parts += _facts(x + 8, top, guest, kind)
    return parts


def _facts(x: int, top: int, host: HostStatus, kind: str = "") -> list[str]:
    cpus = ",".join(map(str, host.cpus))
    lines = [f"{host.address} {host.interface}".strip(), kind or (f"CPU {cpus}" if cpus else "")]
    return [
        _words(x + 10, top + 20, host.role, INK, 14, "bold"),
        *(_words(x + 10, top + 37 + 16 * n, line) for n, line in enumerate(lines)),
    ]


def _box(x: int, top: int, width: int, height: int, alive: bool, round_by: int = 6) -> str:
    dashes = "" if alive else ' stroke-dasharray="5 4"'
    return (
        f'<rect x="{x}" y="{top}" width="{width}" height="{height}" rx="{round_by}"'
        f' fill="none" stroke="{GOOD if alive else BAD}" stroke-width="2"{dashes}/>'
    )


def _line(x1: int, y1: int, x2: int, y2: int, dashes: str = "") -> str:
    pattern = f' stroke-dasharray="{dashes}"' if dashes else ""
    ends = f'x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"'
    return f'<line {ends} stroke="{FAINT}" stroke-width="2"{pattern}/>'


def _words(
    x: int, top: int, text: str, colour: str = FAINT, size: int = 12, weight: str = "normal"
) -> str:
    return (
        f'<text x="{x}" y="{top}" fill="{colour}" font-size="{size}" font-weight="{weight}">'
        f"{escape(text)}</text>"
    )
