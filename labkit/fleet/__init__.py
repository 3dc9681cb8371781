"""Several hosts at once: they answer side by side and start together.

Start with `fleet.py`.
"""
