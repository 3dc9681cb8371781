"""A management server: what runs on the hosts of a cluster, and what asks it.

`server` is its own program, `simulator` speaks to govmomi's vcsim behind it, `__main__` asks it as
an administrator does. All of it is packed into one file that any host with Python 3.9 can run.
Start with `server`.
"""
