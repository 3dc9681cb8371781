"""Numbers that may be measurements, as Hypothesis makes them."""

from hypothesis import strategies as st

from labkit.statistics.pooled import SMALLEST


def measurable(most):
    """Zero, or a size of either sign between the least and this one."""
    return st.just(0.0) | st.floats(SMALLEST, most) | st.floats(-most, -SMALLEST)
