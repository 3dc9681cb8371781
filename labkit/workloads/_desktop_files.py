"""Files that the applications of desktops open: pages and models of labkit's own."""

import math
import random
from collections.abc import Iterator, Mapping

from labkit.machine.scripts import beside

SEED, PAGES, LINES, WORDS_A_LINE, BARS = 1, 60, 40, 12, 9
WORDS = ["desktop", "frame", "guest", "host", "client", "screen", "update", "region", "picture",
         "colour", "page", "answer"]  # fmt: skip
PARAGRAPHS, WORDS_A_PARAGRAPH = 300, 60
ODF = "urn:oasis:names:tc:opendocument:xmlns:"
# No tip of the day and no news of the release: both would take the first keys.
WRITER = ".config/libreoffice/4/user/registrymodifications.xcu"
BROWSER = ".config/netsurf/Choices"
BROWSER_SETTINGS = b"window_x:0\nwindow_y:0\nwindow_width:800\nwindow_height:600\n"
TOOTH = ((0.0, -1.2), (0.25, -1.2), (0.35, 1.0), (0.65, 1.0), (0.75, -1.2))
"""The outline of a tooth: parts of its turn, and modules beyond the pitch circle."""
MODULE, THICK = 2, 5
GEARS = ((12, -30), (36, 18))
"""Teeth and place of the two gears of a reducer, three to one."""


def pages() -> bytes:
    """A PDF document of text and charts, where no two pages are the same."""
    dice = random.Random(SEED)
    kids = " ".join(f"{4 + 2 * page} 0 R" for page in range(PAGES))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {PAGES} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for page in range(PAGES):
        content = _page(dice)
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            f"/Contents {5 + 2 * page} 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        ]
    return _document(objects)


def _page(dice: random.Random) -> str:
    lines = (" ".join(dice.choices(WORDS, k=WORDS_A_LINE)) for _ in range(LINES))
    text = " ".join(f"({line}) Tj T*" for line in lines)
    bars = " ".join(
        f"{dice.random():.2f} {dice.random():.2f} {dice.random():.2f} rg "
        f"{60 + 50 * bar} 60 30 {dice.randrange(20, 120)} re f"
        for bar in range(BARS)
    )
    return f"BT /F1 11 Tf 14 TL 50 790 Td {text} ET {bars}"


def _document(objects: list[str]) -> bytes:
    text, starts = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        starts.append(len(text))
        text += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{start:010d} 00000 n \n" for start in starts)
    size = len(objects) + 1
    text += f"xref\n0 {size}\n0000000000 65535 f \n{table}"
    end = text.index("xref\n0 ")
    return f"{text}trailer << /Size {size} /Root 1 0 R >>\nstartxref\n{end}\n%%EOF\n".encode()


def letter() -> Mapping[str, bytes]:
    """A long text document of OpenDocument's flat kind, and the settings of Writer."""
    text = "".join(f"<text:p>{words}</text:p>" for words in _paragraphs())
    names = " ".join(f'xmlns:{name}="{ODF}{name}:1.0"' for name in ("office", "text"))
    kind = 'office:version="1.2" office:mimetype="application/vnd.oasis.opendocument.text"'
    body = f"<office:body><office:text>{text}</office:text></office:body>"
    document = f"<office:document {names} {kind}>{body}</office:document>"
    return {
        "own.fodt": f'<?xml version="1.0"?>\n{document}'.encode(),
        WRITER: beside(__file__, "_desktop_writer.xcu").encode(),
    }


def web_page() -> Mapping[str, bytes]:
    """A long page of text and tables, and the settings of a browser."""
    parts = (
        f"<h2>{number}</h2><p>{words}<table border=1><tr><td>"
        f"{words[:60]}<td bgcolor=#{number * 7919 % 0xFFFFFF:06x}>{words[60:120]}</table>"
        for number, words in enumerate(_paragraphs())
    )
    return {"own.html": f"<title>labkit</title>{''.join(parts)}".encode(),
            BROWSER: BROWSER_SETTINGS}  # fmt: skip


def _paragraphs() -> Iterator[str]:
    dice = random.Random(SEED)
    return (" ".join(dice.choices(WORDS, k=WORDS_A_PARAGRAPH)) for _ in range(PARAGRAPHS))


def reducer() -> bytes:
    """Two gears, three to one, as a mesh in Wavefront's format."""
    corners: list[str] = []
    faces: list[str] = []
    for teeth, place in GEARS:
        outline = [*_outline(teeth, place)]
        low = len(corners) + 1
        high = low + len(outline) + 1
        for z in (-THICK, THICK):
            corners += [f"v {x:.3f} {y:.3f} {z}" for x, y in [*outline, (place, 0.0)]]
        for a in range(len(outline)):
            b, middle = (a + 1) % len(outline), len(outline)
            faces += [
                f"f {low + b} {low + a} {low + middle}", f"f {high + a} {high + b} {high + middle}",
                f"f {low + a} {low + b} {high + b}", f"f {low + a} {high + b} {high + a}",
            ]  # fmt: skip
    return "\n".join([*corners, *faces, ""]).encode()


def _outline(teeth: int, place: float) -> Iterator[tuple[float, float]]:
    for tooth in range(teeth):
        for part, modules in TOOTH:
            turn = 2 * math.pi * (tooth + part) / teeth
            radius = MODULE * (teeth / 2 + modules)
            yield place + radius * math.cos(turn), radius * math.sin(turn)
