"""Find the first step, module and tensor where two PyTorch training runs stop being bit-identical.

Most people use the command ``bd``; the library has one door, `record` (and `step`, for counting steps by hand):

    with bisect_diverge.record("runs/a"):
        train()
"""

from bisect_diverge.record.api import record, step

__all__ = ["__version__", "record", "step"]

__version__ = "0.1.0"
