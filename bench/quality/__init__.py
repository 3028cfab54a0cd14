"""Benchmarks of the quality of rules: planted rules, noise columns, shuffled labels, and comparisons with other miners."""
