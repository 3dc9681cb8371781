"""Counters from large CSV files, such as those of esxtop.

polars reads them: start with `counters.py`. `lines.py` reads by hand what is odd.
"""
