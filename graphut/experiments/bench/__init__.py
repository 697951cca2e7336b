"""Benchmarks: attention backends, graph layers, halting, long sentences, processes, topologies."""
