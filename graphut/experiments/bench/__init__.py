"""Benchmarks of attention calls, graph layers, adaptive recurrences and long sentences."""
