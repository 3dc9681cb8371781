"""How commands and files reach a host, one way each.

Start with `ssh.py`; `local.py` is this machine without SSH.
"""
