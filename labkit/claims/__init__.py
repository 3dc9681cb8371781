"""The documents' claims and printed figures, read from data/published, and how they are judged.

Start with `published.py`, then `judged_as.py`.
"""
