"""The order-entry database: what runs on test hosts, in plain Python with no other packages.

`kit.py` packs these files into one that any host with Python 3.9 can run.
"""
