"""The guests of a box: what runs them, their kernels, disks and first programs.

Start with `accelerator.py`.
"""
