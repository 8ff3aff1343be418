"""Re-runs a recorded run under a configuration: workspace, runner, journal. Needs no torch itself."""
