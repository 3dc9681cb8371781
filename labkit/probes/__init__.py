"""Things to watch on a host while a workload runs, one file each.

Start with `ready_time.py`.
"""

from labkit.machine import workspace

workspace.extend(__path__, "probes")
