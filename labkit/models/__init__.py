"""Formulas of what a lab does, fitted to what it did, to plan what is too large for it.

Start with `migration`. A model knows nothing of studies.
"""
