"""This machine, for all of labkit: its folders, accounts, clocks' units, and files that are written whole.

Start with `places.py`.
"""
