"""Runs inside the user's process: naming, steps, hooks, capture, sink. Imports torch, numpy, h5py, xxhash only."""
