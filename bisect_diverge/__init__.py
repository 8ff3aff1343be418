"""Find the first step, module and tensor where two PyTorch training runs stop being bit-identical.

Most people use the command ``bd``; the library has one door, `record`:

    with bisect_diverge.record("runs/a"):
        train()
"""

from bisect_diverge.record.api import record

__all__ = ["__version__", "record"]

__version__ = "0.1.0"
