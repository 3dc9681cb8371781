"""Boxes without root.

Start with `user_namespace.py`; `plain_user.py` is for machines that allow even less.
"""
