"""From the leaves of a search to findings: supported, certified, grouped by the rows they cover, and chosen."""
