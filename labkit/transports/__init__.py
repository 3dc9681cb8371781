"""Ways for commands and files to reach a host, one module each.

Start with `ssh.py`; `local.py` is this machine without SSH.
"""
