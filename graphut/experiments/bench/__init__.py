"""Benchmarks: of attention backends, halting, long sentences, processes, and topologies."""

from graphut.experiments.bench.attention import backend_names, bench_attention
from graphut.experiments.bench.comparison import Comparison, ComparisonReport
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
    "ModelProblem",
    "Sizes",
    "backend_names",
    "bench_attention",
    "bench_model",
    "bench_processes",
    "bench_scaling",
]
