"""The front page in JupyterLab: cards of studies, the lab, the results, the scorecard.

Start with `front_page.py`, which shows what the others find; `opening.py` opens JupyterLab there.
"""
