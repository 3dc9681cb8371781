"""Percentiles, intervals and tests for few blocks of many samples.

Start with `percentiles.py`; `quantity.py` reads the figures of claims, and
`estimate.py` gives them an interval.
"""
