"""Generated tables with planted rules, the truth about them, and a score for rules mined from them."""
