"""Campaigns beyond one machine: Dask hands each point to a worker, which conducts it as a campaign.

Start with `task.py`, which runs on a worker; `on_cluster.py` is the side of the conductor.
"""
