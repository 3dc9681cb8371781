"""Gates decide whether a run counts, from what its hosts counted before and after it.

Start with `gate.py`.
"""
