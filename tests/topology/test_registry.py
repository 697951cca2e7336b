from graphut.topology import Topology, Window, parse, register_composition
from tests.helpers import refuses


def test_register_composition_names_a_function_in_specs() -> None:
    @register_composition
    def test_shifted(radius: int, seed: int = 3) -> Topology:
        return Window(radius + seed)

    assert parse("test_shifted:2") == Window(5)
    assert parse("test_shifted:2@7|causal").spec() == "window:9|causal"

    def window(radius: int) -> Topology:
        return Window(radius)

    refuses(r"'window', which is the name of .*\.window\.Window", register_composition, window)
