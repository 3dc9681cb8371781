"""Events for a lab under a workload: one module each, found because it is there.

A condition of a study names it. Start with `migration`: its drivers stand beside it, as `_qemu`.
"""

from labkit.machine import workspace

workspace.extend(__path__, "events")
