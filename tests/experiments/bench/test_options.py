from graphut.experiments.bench.options import AttentionOptions, ModelOptions, parse_shape
from tests.helpers import refuses


def test_parse_shape() -> None:
    assert (parse_shape("64x10-60"), parse_shape("8x400")) == ((64, 10, 60), (8, 400, 400))
    for shape in ("", "8", "8x", "8y3", "8x3-", "8x3-4-5", "-1x3", "0x3"):
        refuses(f"^'{shape}' is not a shape such as 64x10-60", parse_shape, shape)
    for lengths in ("0-2", "3-2"):
        refuses(f"with 1 <= LOW <= HIGH, got '{lengths}'", parse_shape, f"1x{lengths}")


def test_attention_options_check_tuples_and_missing_values() -> None:
    refuses("topology must be a tuple; got 'causal'", AttentionOptions, nodes=3, topology="causal")
    refuses(
        r"backends must be one of 'dgl', .*; got \('torch', 'x'\)",
        AttentionOptions,
        nodes=3,
        backends=("torch", "x"),
    )
    refuses("nodes must be an integer; got 2.5", AttentionOptions, nodes=2.5)
    refuses(r"dim must be at least 1; got \(8, 0\)", ModelOptions, dim=(8, 0))
