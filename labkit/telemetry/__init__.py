"""Counters from large CSV files, such as those of esxtop.

Start with `counters.py`.
"""
