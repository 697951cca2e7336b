"""The experiments: tasks, training, results and benchmarks, and the command line."""
