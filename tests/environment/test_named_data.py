"""Data files that a configuration file names."""

import json

from bisect_diverge.environment import named_files as module
from bisect_diverge.environment.named_files import named_files, texts_in


def test_paths_are_looked_for_in_small_configuration_files_only(tmp_path, monkeypatch):
    """A large one is data, and would take seconds to be read; all of them together have a limit as well."""
    (tmp_path / "w.bin").touch()
    small, large = tmp_path / "small.json", tmp_path / "large.json"
    small.write_text(json.dumps({"weights": "w.bin"}))
    large.write_text(json.dumps({"weights": "w.bin", "words": "x" * module.TEXTS_BYTES}))
    weights = [str(tmp_path / "w.bin")]
    assert list(named_files(["python"], tmp_path, [str(large), str(small)])) == weights
    assert list(named_files(["python"], tmp_path, [str(large)])) == []
    assert texts_in(str(large)) == []
    monkeypatch.setattr(module, "MOST_TEXTS_BYTES", 10)
    assert list(named_files(["python"], tmp_path, [str(small)])) == []
