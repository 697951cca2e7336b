"""Finished runs: the options that repeat them, their record, their report and their model card."""
