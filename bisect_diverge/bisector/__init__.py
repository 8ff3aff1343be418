"""Which trials to make, and what they prove. Knows an oracle, and nothing of runs, files or torch."""
