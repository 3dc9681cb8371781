"""The programs that labkit calls, and the packages that bring them.

Start with `packages.py`.
"""
