"""The links of a box: wires, shaping, and measuring what came of it.

Start with `shaping.py`.
"""
