"""Training runs: the commands that repeat them, and their record, report and model card."""
