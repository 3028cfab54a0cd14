"""What the rules are worth: planted tables, noise columns, shuffled labels; beside the paper's way and other miners."""
