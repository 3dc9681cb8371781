"""`esxtop -b -d SECONDS -n TIMES` of the stand-in: the documented form, figures of our own."""

import sys
import time

GROUP = ("% Used", "% Run", "% Ready", "% CoStop")
# What a machine of two CPUs might show; the first moment is of a time that nobody chose.
FIRST, LATER = (90.0, 88.0, 150.0, 0.0), (40.0, 39.0, 0.5, 0.0)


def run(state, words):
    """One row of headers, then a row each `-d` seconds; every cell is quoted."""
    options = dict(zip(words[1::2], words[2::2], strict=False))
    if words[:1] != ["-b"] or float(options.get("-d", "5")) < 2:
        print("esxtop: only batch mode (-b), each 2 s or more", file=sys.stderr)
        return 1
    groups = [f"{n + 100}:{one['name']}" for n, one in enumerate(state["machines"].values())]
    names = [f"Physical Cpu({n})\\% Util Time" for n in ("0", "1", "2", "3", "_Total")]
    every = ("1:idle", *groups)
    names += [f"Group Cpu({group})\\{counter}" for group in every for counter in GROUP]
    _row(["(PDH-CSV 4.0) (UTC)(0)", *(f"\\\\esx1\\{name}" for name in names)])
    for n in range(int(options.get("-n", "2"))):
        if n:
            time.sleep(float(options.get("-d", "5")))
        figures = FIRST if n == 0 else LATER
        values = [12.5] * 5 + [figure for _ in every for figure in figures]
        now = time.strftime("%m/%d/%Y %H:%M:%S", time.gmtime())
        _row([now, *(f"{value:.2f}" for value in values)])
    return 0


def _row(cells):
    print(",".join(f'"{cell}"' for cell in cells), flush=True)
