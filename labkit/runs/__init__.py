"""The run directories as a whole: their index, bundles of them, and the facts that they keep.

Start with `index.py`.
"""
