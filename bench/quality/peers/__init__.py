"""Code that runs in the peers' own virtual environment. It uses files and pipes, and does not import maabo_dist."""
