"""The documented loads, one file each."""
