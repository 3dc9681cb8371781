"""The documents' claims and printed figures, read from data/published.

Start with `published.py`.
"""
