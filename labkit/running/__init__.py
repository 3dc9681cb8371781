"""Running a study: on which lab, in which order, and in which notebook.

Start with `open_lab.py`, then `visit.py`.
"""
