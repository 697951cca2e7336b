"""The options of the benchmarks, with their checks; this module does not import torch."""

import re
from dataclasses import dataclass
from typing import Any, Literal

from graphut.models.checked_config import CheckedConfig, check_different, option
from graphut.models.config import UniversalGraphTransformerConfig
from graphut.models.model_files import read_config
from graphut.nn import EventDriven, parse_rule
from graphut.topology import parse

_DEVICE = '"cpu" or "cuda" (default: cuda, if there is one)'


@dataclass(frozen=True, kw_only=True)
class AttentionOptions(CheckedConfig):
    """Compare implementations of one attention call, or the time of an edge among topologies."""

    topology: tuple[str, ...] = option(
        ("complete",), "who attends to whom, such as window:32; of several, compare the time of an "
        "edge, by the backend auto unless --backends or --peers are given"
    )  # fmt: skip
    nodes: int | None = option(None, "number of tokens of a single sentence", least=1)
    sentences: int | None = option(None, "number of sentences, instead of --nodes", least=1)
    lengths: str | None = option(None, "tokens of each sentence, such as 10-60")
    dim: int = option(128, "features", least=1)
    heads: int = option(8, "heads", least=1)
    repeats: int = option(9, "timed rounds", least=1)
    device: str | None = option(None, _DEVICE)
    dtype: Literal["float32", "float64", "bfloat16"] = option(
        "float32", "data type of the features; a call in bfloat16 is compared with one in float32"
    )
    frontier: float = option(1.0, "share of the nodes that are active")
    cold: bool = option(
        False, "write 64 MB of other data before each timed call, to clear the caches"
    )
    phases: bool = option(
        False, "also measure the phases of the native kernel for consecutive sources"
    )
    backends: tuple[Literal["dgl", "torch", "native", "triton", "auto"], ...] | None = option(
        None, "backends of graphut to measure (default: all but auto)"
    )
    peers: tuple[Literal["pyg", "padded", "flex"], ...] | None = option(
        None, "other implementations; --peers without a name measures none (default: all)"
    )

    def _check_values(self) -> None:
        check_different("topologies", [str(parse(spec)) for spec in self.topology])
        is_single = self.nodes is not None
        if (self.sentences is None, self.lengths is None) != (is_single, is_single):
            raise ValueError("give --nodes N, or --sentences N with --lengths LOW-HIGH")
        parse_shape(self.shape)
        check_heads(self.dim, self.heads)
        self._check("frontier", 0.0 < self.frontier <= 1.0, "a share in (0, 1]")

    @property
    def shape(self) -> str:
        """The shape of the batch of sentences, such as "64x10-60"."""
        return f"{self.sentences}x{self.lengths}" if self.nodes is None else f"1x{self.nodes}"


@dataclass(frozen=True, kw_only=True)
class ModelOptions(CheckedConfig):
    """Compare the recurrence, with scheduled halting, with a padded model."""

    shape: tuple[str, ...] = option(("64x10-60", "8x400"), "sentences and their lengths")
    topology: tuple[str, ...] = option(("complete",), "who attends to whom")
    dim: tuple[int, ...] = option((128,), "features", least=1)
    heads: int = option(8, "heads", least=1)
    repeats: int = option(9, "timed rounds", least=1)
    device: str | None = option(None, _DEVICE)
    nobody_halts: bool = option(False, "also measure without halting")
    bfloat16: bool = option(
        False, "also measure the recurrence (and the compiled model) under autocast to bfloat16"
    )
    compile: bool = option(
        False, "also measure the padded model under torch.compile; on a GPU, with CUDA graphs"
    )
    small: bool = option(
        False, "measure only small calls, of 5 to 240 nodes and two steps, beside plain torch"
    )

    def _check_values(self) -> None:
        for spec in self.topology:
            if parse(spec).has_extra_nodes:
                raise ValueError(f"{spec} has nodes that are not tokens: choose another topology")
        for shape in self.shape:
            parse_shape(shape)
        for dim in self.dim:
            check_heads(dim, self.heads)


@dataclass(frozen=True, kw_only=True)
class LayerOptions(CheckedConfig):
    """Compare graph layers with DGL's and PyG's, on the CPU."""

    nodes: int = option(100_000, "nodes of a random graph", least=1)
    edges: int = option(2_000_000, "its edges", least=0)
    power_law: bool = option(False, "draw a few nodes with most of the edges")
    seeds: int | None = option(
        None, "two layers on sampled blocks of 10 in-neighbours for this many nodes", least=1
    )
    dim: int = option(128, "features", least=1)
    heads: int = option(4, "heads", least=1)
    repeats: int = option(5, "timed rounds", least=1)

    def _check_values(self) -> None:
        check_heads(self.dim, self.heads)
        self._check("seeds", (self.seeds or 0) <= self.nodes, f"at most the {self.nodes} nodes")


@dataclass(frozen=True, kw_only=True)
class TrainOptions(CheckedConfig):
    """Compare an update of three presets with one of a model in plain torch."""

    workloads: tuple[Literal["translation", "sorting", "characters"], ...] = option(
        ("translation", "sorting", "characters"), "presets to measure"
    )
    compiled: bool = option(False, "also compile the layers of the plain model")
    repeats: int = option(9, "timed rounds", least=1)


@dataclass(frozen=True, kw_only=True)
class WakingOptions(CheckedConfig):
    """Compare a model whose nodes wake with the same model, always awake."""

    run: str
    nodes: int = option(10_000, "nodes of each graph", least=2)
    scaling: tuple[int, ...] = option(
        (),
        "also measure the time of a node update and of a round on graphs of these sizes",
        least=2,
    )
    repeats: int = option(3, "timed rounds", least=1)

    def _check_values(self) -> None:
        saved = read_config(self.run, "UniversalGraphTransformer")
        config = UniversalGraphTransformerConfig.from_dict(saved.values)
        if not isinstance(parse_rule(config.evaluation_rule or config.rule), EventDriven):
            raise ValueError(f"{self.run} has no model with the evaluation rule event_driven")


@dataclass(frozen=True, kw_only=True)
class GpuOptions(CheckedConfig):
    """Measure everything on a GPU, except sections that the file of results already contains."""

    minutes: float = option(8.0, "start no section after this many minutes")
    tiny: bool = option(False, "use small sizes without a GPU, to test the program")


BENCHMARKS: dict[str, type[Any]] = {
    "attention": AttentionOptions, "layers": LayerOptions, "model": ModelOptions,
    "train": TrainOptions, "waking": WakingOptions, "gpu": GpuOptions,
}  # fmt: skip


def parse_shape(shape: str) -> tuple[int, int, int]:
    """Return the number of sentences, and their smallest and largest length, of "64x10-60"."""
    parts = re.fullmatch(r"([1-9]\d{0,8})x(\d{1,9})(?:-(\d{1,9}))?", shape)
    if parts is None:
        raise ValueError(f"{shape!r} is not a shape such as 64x10-60 or 8x400")
    sentences, shortest, longest = (int(part or parts[2]) for part in parts.groups())
    if not 1 <= shortest <= longest:
        lengths = shape.partition("x")[2]
        raise ValueError(f"lengths must be LOW-HIGH with 1 <= LOW <= HIGH, got {lengths!r}")
    return sentences, shortest, longest


def check_heads(dim: int, heads: int) -> None:
    """Raise `ValueError` if `dim` features cannot be divided evenly among attention heads."""
    if dim % heads:
        raise ValueError(f"{dim} features do not divide into {heads} heads")
