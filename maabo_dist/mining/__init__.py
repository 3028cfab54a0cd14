"""From columns to rules: `run` is the search, `result` its conclusion, `local` the whole method in one process."""
