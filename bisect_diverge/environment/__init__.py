"""What surrounds a run: one file per layer, each a table of knobs and how each is read.

Everything here works without torch and looks at it only where the process has imported it already. Nothing
raises into the user's process, draws from a generator, changes a thread count, initialises a device or
prints.
"""
