import pytest

from graphut.topology import Causal, Virtual, Window
from tests.helpers import refuses


@pytest.mark.parametrize("operator", ["and", "or"])
def test_topologies_refuse_the_operators_of_python(operator: str) -> None:
    """`Window(2) and Causal()` would be `Causal()`, and with `or` it would be `Window(2)`."""
    with pytest.raises(TypeError, match=r"window:2 is neither .* with & and ., not"):
        eval(f"Window(2) {operator} Causal()", {"Window": Window, "Causal": Causal})
    for each in (Window(2) & Causal(), Window(2) | Causal(), Virtual(3)):
        refuses("neither true nor false", lambda each=each: not each)
