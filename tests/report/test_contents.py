"""What differs inside files, from the contents that two runs kept."""

from pathlib import Path

from bisect_diverge.environment.inputs import FILE
from bisect_diverge.model.environment import Difference, Layer
from bisect_diverge.model.run import RunRecord
from bisect_diverge.report.contents import contents
from bisect_diverge.report.environment_text import differences_text


def kept(folder: Path, **files: bytes) -> RunRecord:
    """Return a run that kept contents under the names that stand for their hashes."""
    (folder / "files").mkdir(parents=True)
    for name, content in files.items():
        (folder / "files" / name).write_bytes(content)
    return RunRecord(cwd=str(folder / "gone"), place=str(folder))


def row(layer: Layer, name: str, a: str, b: str | None) -> Difference:
    """Return the difference of a file."""
    return Difference(layer=layer, knob=f"{FILE}{name}", a=f"xxh3:{a}", b=None if b is None else f"xxh3:{b}")


def test_keys_and_lines_are_named_and_binary_files_are_not(tmp_path: Path):
    """Three keys at most; a credential is masked; the first line that differs."""
    of_a = kept(
        tmp_path / "a", a1=b'{"optim": {"lr": 0.001}, "p": 1, "q": 1, "r": 1}', a2=b"1,2\n3,4\n", a3=b"\xff", a4=b""
    )
    of_b = kept(
        tmp_path / "b", b1=b'{"optim": {"lr": 0.002}, "p": 2, "q": 2, "r": 2}', b2=b"1,2\n3,5\n6,7\n", b3=b"\xfe"
    )
    rows = (
        row(Layer.CONFIGURATION, "cfg.json", "a1", "b1"),
        row(Layer.DATASET, "d.csv", "a2", "b2"),
        row(Layer.DATASET, "x.csv", "a3", "b3"),
        row(Layer.CONFIGURATION, "gone.json", "a1", "nowhere"),
        row(Layer.CONFIGURATION, "one.json", "a1", None),
    )
    found = contents(of_a, of_b, rows)

    assert found == {
        "file:cfg.json": ("optim.lr: 0.001 -> 0.002", "p: 1 -> 2", "q: 1 -> 2", "... 1 more key"),
        "file:d.csv": ("2 lines differ, the first is line 2: 3,4 -> 3,5",),
    }
    assert "      optim.lr: 0.001 -> 0.002" in differences_text(rows, (), found).splitlines()


def test_credentials_stay_masked(tmp_path: Path):
    """In keys of a file and in lines of a table."""
    of_a = kept(tmp_path / "a", a1=b'{"api_key": "abc123secret"}', a2=b"password=hunter2abc\n")
    of_b = kept(tmp_path / "b", b1=b'{"api_key": "xyz789secret"}', b2=b"password=hunter3abc\n")
    rows = (row(Layer.CONFIGURATION, "cfg.json", "a1", "b1"), row(Layer.DATASET, "d.csv", "a2", "b2"))
    text = str(contents(of_a, of_b, rows))

    assert "api_key" in text
    assert "secret'" not in text
    assert "abc" not in text
    assert "hunter" not in text
