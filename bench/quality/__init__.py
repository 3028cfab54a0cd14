"""Benchmarks of the quality of rules: planted rules, noise columns, shuffled labels, comparisons with other miners."""
