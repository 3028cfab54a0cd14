"""The paper's experiments, tables with planted rules, and their plots."""
