"""Detached jobs: commands that outlive the connection, the notebook and this machine.

Start with `job.py`; `runner/` is what runs on the host.
"""

from labkit.job.job import CAP, Job, JobLimits, Tell, attach, listed, silent, start
from labkit.job.state import JobStatus, Printed, State

__all__ = [
    "CAP", "Job", "JobLimits", "JobStatus", "Printed", "State", "Tell", "attach", "listed",
    "silent", "start",
]  # fmt: skip
