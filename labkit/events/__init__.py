"""What can be done to a lab while a workload runs: one module each, found because it is there.

A condition of a study names it. Start with `migration`: its drivers stand beside it, as `_qemu`.
"""
