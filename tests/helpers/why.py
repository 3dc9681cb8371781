"""Why intervals of one kind of latency hold less or more often than they say."""


def why(name, figure, q, blocks, samples, seldom):
    """The reason of a cell of the page of proof that lies outside."""
    return "?"
