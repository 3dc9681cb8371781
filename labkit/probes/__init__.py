"""What can be watched on a host while a workload runs."""
