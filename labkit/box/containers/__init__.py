"""The containers of a box.

Start with `container.py`.
"""
