"""Values only: what a run, an address, an environment and a divergence are. Standard library only."""
