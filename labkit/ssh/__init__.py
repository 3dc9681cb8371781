"""SSH as labkit speaks it: known hosts, logins, sessions, and one shell for many commands.

Start with `connection.py`; `transports/ssh.py` is what a host sees of it.
"""
