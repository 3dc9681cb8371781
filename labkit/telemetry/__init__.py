"""Counters from large CSV files, such as those of esxtop: start with `counters.py`."""
