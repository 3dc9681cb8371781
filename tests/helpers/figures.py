"""What a load reads from a text, as one figure for each metric."""


def figures(load, text):
    """The mean of each metric's values."""
    return {sample.metric: float(sample.values.mean()) for sample in load.parse(text)}
