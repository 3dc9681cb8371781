"""The order-entry database: what runs on test hosts, in plain Python with no other packages.

Start with `driver.py`; `kit.py` packs these files into one for any host with Python 3.9.
"""
