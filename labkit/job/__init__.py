"""Detached jobs: commands that outlive the connection, the notebook and this machine."""

from labkit.job.job import CAP, Job, Limits, Tell, attach, listed, silent, start
from labkit.job.state import Printed, State, Status

__all__ = [
    "CAP",
    "Job",
    "Limits",
    "Printed",
    "State",
    "Status",
    "Tell",
    "attach",
    "listed",
    "silent",
    "start",
]  # fmt: skip
