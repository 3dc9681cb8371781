"""Campaigns: studies from one file, measured point by point, resumed after any death, compared.

Start with `asked.py`, then `conductor.py`.
"""
