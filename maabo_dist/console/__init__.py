"""Building blocks shared by the project's command lines: `maabo`, `python -m scheduler` and `python -m deploy.…`."""
