"""The local machine: folders of labkit, accounts, units, stopping, and files written whole.

Start with `places.py`.
"""
