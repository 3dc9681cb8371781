"""Campaigns beyond one machine: points on the workers of a Dask cluster, their records in a store.

Dask only names a point; what became of it is decided in the store. Start with `tries.py`.
"""
