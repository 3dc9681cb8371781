"""How the stand-in's tools say no."""


class Refused(Exception):
    """What the tool prints before it ends with code 1; nothing has changed."""
