"""Boxes without root: start with `user_namespace.py`."""
