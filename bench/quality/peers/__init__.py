"""What runs in the peers' own virtual environment. It knows files and pipes, and nothing of maabo_dist."""
