"""Training runs: the commands that repeat them, and their record and report."""
