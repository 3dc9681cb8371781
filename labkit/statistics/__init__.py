"""Percentiles, intervals and tests for few blocks of many samples.

Start with `percentiles.py`; `quantity.py` computes the figures of claims.
"""
