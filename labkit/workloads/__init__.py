"""The documented loads, one file each.

Start with `ping.py`; names with an underscore hold what several share.
"""

from labkit.machine import workspace

workspace.extend(__path__, "workloads")
