"""Benchmarks: attention backends, graph layers, halting, long sentences, processes, topologies."""

from graphut.experiments.bench.attention import backend_names, bench_attention
from graphut.experiments.bench.comparison import Comparison, ComparisonReport
from graphut.experiments.bench.layers import LayerProblem, bench_layers
from graphut.experiments.bench.model import bench_model
from graphut.experiments.bench.peers import PEERS
from graphut.experiments.bench.processes import bench_processes
from graphut.experiments.bench.scaling import bench_scaling
from graphut.experiments.bench.workloads import AttentionProblem, ModelProblem, Sizes

__all__ = [
    "PEERS",
    "AttentionProblem",
    "Comparison",
    "ComparisonReport",
    "LayerProblem",
    "ModelProblem",
    "Sizes",
    "backend_names",
    "bench_attention",
    "bench_layers",
    "bench_model",
    "bench_processes",
    "bench_scaling",
]
