"""Every panel of a notebook, full of hostile texts; run in the kernel of a real JupyterLab."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import synthetic
from IPython.display import display

from labkit import find_study
from labkit.condition import Condition
from labkit.pages.dial_panel import DialPanel
from labkit.pages.growing import Median
from labkit.pages.lab_panel import LabPanel, LadderPanel
from labkit.pages.study_panel import StudyPanel, _View, standing
from labkit.results import Results, Run


def results_of(study, texts) -> Results:
    """A folder of results whose lab and conditions are called by these texts."""
    host = {"kernel": texts[0], "cpus": texts[1], "address": texts[2]}
    lab = {"name": texts[0], "tier": texts[1], "accelerator": texts[2], "hosts": {texts[3]: host}}
    folder = Path(tempfile.mkdtemp(prefix="labkit-hostile-"))
    asked = {**study.asked("box", 1), "label": "x", "lab": lab, "refused": {"odd": texts[0]}}
    results = Results.begin(folder / "r", asked)
    for order, condition in enumerate(study.conditions, 1):
        raw = {"ping.txt": synthetic.ping_text(np.arange(50.0, 90.0) + order)}
        for state in ("finished", "invalid", "interrupted"):
            results.keep(_run(condition.name, order, state, texts), raw)
    return results


# Whatever a run of somebody else's may say of its hosts.
def _run(condition, order, state, texts) -> Run:
    said = {texts[3]: {texts[4]: texts[5]}, texts[1]: {text: text for text in texts}}
    facts = {"versions": said[texts[1]], "hosts": said}
    return Run(condition, 1, order, state, why=texts[order % len(texts)], started=texts[2],
               gates=said, untold=said, facts=facts, settings=said[texts[1]])  # fmt: skip


def show(texts) -> None:
    """All panels, one below the other."""
    conditions = tuple(Condition(text, means=text, here=text) for text in texts)
    study = replace(find_study("lat_ping"), title=texts[0], conditions=conditions, claims=())
    results = results_of(study, texts)
    LabPanel(None, results.asked["lab"])._ipython_display_()
    StudyPanel(study, None, results, repeats=1).show()
    LadderPanel(results, study)._ipython_display_()
    running = _View(print, print)
    for text in texts:
        now = standing(study, results, 2, text, "running")
        running.draw(replace(now, figures=dict.fromkeys(now.lanes, Median(text))))
    display(running.whole)
    dials = DialPanel(None)
    display(dials.view())
    dials.say(" ".join(texts))
