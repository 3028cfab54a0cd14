"""Ways to run the whole system: `local`, everything on this machine."""
