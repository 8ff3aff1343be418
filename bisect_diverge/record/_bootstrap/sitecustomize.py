"""Runs at the start of every Python process below ``bd record``: first the user's own sitecustomize, then ours.

Standard library only. Torch is left alone until the process itself imports it; then the hooks go in.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would double the start-up time


def _chain():
    """Run the sitecustomize that this one hides, and leave ``sys.path`` as if we had never been there."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]  # noqa: PTH100
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if "sitecustomize" not in sys.modules and ours is not None:
            sys.modules["sitecustomize"] = ours


class _WhenTorchIsImported:
    """A finder that finds nothing itself; it makes torch's own loader call us when it is done.

    It stays until torch has been imported: many libraries only ask whether there is a torch, before they import it.
    """

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        spec = self._others(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        loader, execute = spec.loader, spec.loader.exec_module

        def exec_module(module):
            execute(module)
            del loader.exec_module
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            _start()

        try:
            loader.exec_module = exec_module
        except AttributeError:  # a loader with slots: torch cannot come from one today
            sys.stderr.write("bd: torch is loaded in a way that cannot be recorded\n")
        return spec

    def _others(self, name, path, target):
        for finder in list(sys.meta_path):
            find_spec = None if finder is self else getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec is not None else None
            if spec is not None:
                return spec
        return None


def _start():
    if _files is not None:
        sys.modules.setdefault("bisect_diverge.record.files", _files)
    try:
        from bisect_diverge.record.bootstrap import start
    except ImportError as error:
        sys.stderr.write(
            f"bd: nothing is recorded: {sys.executable} cannot import bisect_diverge ({error})\n"
            f"  install it there: {sys.executable} -m pip install bisect-diverge\n"
        )
        return
    start()


def _follow_files():
    """Watch what is written, with a module of ours that no other of ours is imported for."""
    from importlib.machinery import ModuleSpec, SourceFileLoader

    name = "bisect_diverge.record.files"
    loader = SourceFileLoader(name, os.path.join(os.path.dirname(_HERE), "files.py"))  # noqa: PTH118, PTH120
    module = type(sys)(name)
    module.__spec__ = ModuleSpec(name, loader)
    try:
        loader.exec_module(module)
        module.begin(_settings)
    except ImportError:  # of a trial, in an interpreter without us: said once torch is imported
        return None
    return module


_settings = os.environ.get("BISECT_DIVERGE_RECORD")
_files = _follow_files() if _settings else None
try:
    _chain()
finally:
    if _settings and "torch" in sys.modules:  # a .pth file was there before us
        _start()
    elif _settings:
        sys.meta_path.insert(0, _WhenTorchIsImported())
