"""Settings are planned, journaled, made, watched and put back here.

Start with `in_force.py`; `plan.py` touches nothing, `restore.py` puts back after a crash.
"""
