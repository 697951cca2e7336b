"""What is fastest on this machine, what halting saves, how time grows, what a topology buys."""

from graphut.experiments.bench.attention import backend_names, bench_attention
from graphut.experiments.bench.comparison import Comparison
from graphut.experiments.bench.comparison_report import ComparisonReport, ComparisonRow
from graphut.experiments.bench.model import ModelProblem, bench_model
from graphut.experiments.bench.model_report import ModelReport
from graphut.experiments.bench.peers import PEERS
from graphut.experiments.bench.problem import AttentionProblem
from graphut.experiments.bench.report import AttentionReport
from graphut.experiments.bench.scaling import ScalingReport, bench_scaling
from graphut.experiments.bench.sizes import Sizes

__all__ = [
    "PEERS",
    "AttentionProblem",
    "AttentionReport",
    "Comparison",
    "ComparisonReport",
    "ComparisonRow",
    "ModelProblem",
    "ModelReport",
    "ScalingReport",
    "Sizes",
    "backend_names",
    "bench_attention",
    "bench_model",
    "bench_scaling",
]
