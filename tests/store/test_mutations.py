"""Damaged recordings: a message and status 2, or a right answer on what is intact; nothing else, ever."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from bisect_diverge.model.address import Address
from bisect_diverge.model.run import RunRecord, State
from bisect_diverge.numerics.digest import ALGORITHM
from bisect_diverge.store import schema, superblock
from bisect_diverge.store.writer import RunWriter
from tests.helpers.mutations import Ended, altered, filled, mutated, run_all
from tests.helpers.runs import add_row, training_rows

ADDRESS = "r0/1/0/forward/model:1#0:output.0"
CHANGE = {ADDRESS: "x"}

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("diff", "{}", "b.h5"),
    ("show", "{}", "--format", "json"),
    ("show", "{}", ADDRESS),
    ("check", "{}"),
    ("export", "{}", "-o", "{}.out", "--force"),
    ("diff", "b.h5", "{}", "--format", "html"),
    ("export", "{}", "--format", "npz", "-o", "{}.npz-out"),
    ("show", "{}", "output.0", "--match", "*1*", "--step", "1"),
    ("diff", "b.h5", "{}", "--format", "json", "--growth"),
    ("check", "{}", "--repair", "--force", "--format", "json"),
)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make recordings whose bytes nearly all mean something: a writer may choose its chunks."""
    for name, size in (("EVENT_CHUNK", 16), ("POOL_CHUNK_BYTES", 256), ("TEXT_CHUNK", 128), ("INDEX_CHUNK", 16)):
        monkeypatch.setattr(schema, name, size)


def recording(path: Path, *, change: dict[str, str] | None = None, killed: bool = False) -> bytes:
    """Return the bytes of a recording, or of one whose writer has not closed it."""
    keeper = RunWriter(path, RunRecord(command=("python", "t.py")), keep_bytes=1 << 20, digest_algorithm=ALGORITHM)
    for row in training_rows(change=change):
        add_row(keeper, Address.parse(row.address), row)
    keeper.hand_over()
    keeper.close(State.COMPLETE, 0)
    content = path.read_bytes()
    if killed:
        body = bytearray(content[:44])
        body[11] |= 5
        content = bytes(body) + superblock._checksum(bytes(body)) + content[48:]
    return content


def damaged(folder: Path, seeds: Sequence[int], share: tuple[int, int]) -> Iterator[str]:
    """Write one damaged recording for each seed; yield their names.

    Args:
        folder: Where to write.
        seeds: One for each.
        share: Of ten, how many are changed through HDF5 and how many are of a killed writer; the rest byte by byte.
    """
    whole = recording(folder / "a.h5")
    recording(folder / "b.h5", change=CHANGE)
    killed = recording(folder / "c.h5", killed=True)
    for seed in seeds:
        random = Random(seed)
        path = folder / f"{seed}.h5"
        content = killed if share[0] <= seed % 10 < sum(share) else whole
        if seed % 10 < share[0]:
            path.write_bytes(content)
            altered(path, random)
        else:
            path.write_bytes(mutated(content, random, filled(content)))
        yield path.name


def outcome(ended: Ended) -> str:
    """Return what is wrong with how a command ended; empty if nothing is."""
    if ended.status not in (0, 1, 2):
        return f"status {ended.status}: {ended.text}"
    if "Traceback" in ended.text:
        return ended.text
    if ended.status == 2 and not ended.text.startswith(("bd: ", "Usage: ", "{")):
        return f"no message: {ended.text}"
    return ""


def assert_harmless(ended: Sequence[Ended], folder: Path) -> None:
    """Assert that every command ended as it should, and left nothing half-written."""
    wrong = [f"{' '.join(one.command)}\n{what}" for one in ended if (what := outcome(one))]
    assert not wrong, f"{len(wrong)} of {len(ended)}\n" + "\n".join(wrong[:5])
    assert not list(folder.glob(".*partial*"))


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
def test_300_damaged_recordings(tmp_path: Path):
    """No command ends in a traceback, hangs, or takes memory, whatever the file holds."""
    names = list(damaged(tmp_path, range(300), (3, 1)))
    commands = [
        [part.replace("{}", name) for part in COMMANDS[number]]
        for seed, name in enumerate(names)
        for number in {seed % len(COMMANDS), (seed // 7) % len(COMMANDS)}
    ]
    assert_harmless(run_all(commands, tmp_path), tmp_path)


@pytest.mark.matrix
@pytest.mark.usefixtures("small_chunks")
def test_2000_damaged_recordings(tmp_path: Path):
    """The same for every command on many more files."""
    for start in range(1000, 3000, 200):
        folder = tmp_path / str(start)
        folder.mkdir()
        names = list(damaged(folder, range(start, start + 200), (3, 1)))
        commands = [[part.replace("{}", name) for part in command] for name in names for command in COMMANDS]
        assert_harmless(run_all(commands, folder), folder)


@pytest.mark.usefixtures("small_chunks")
def test_an_undamaged_recording_passes_every_command(tmp_path: Path):
    """The commands of the series do their work where nothing is damaged, also after a kill."""
    recording(tmp_path / "b.h5", change=CHANGE)
    (tmp_path / "k.h5").write_bytes(recording(tmp_path / "c.h5", killed=True))
    commands = [[part.replace("{}", "k.h5") for part in command] for command in COMMANDS]
    ended = run_all(commands, tmp_path)

    assert [one.status for one in ended] == [1, 0, 0, 0, 0, 1, 0, 0, 1, 0], ended
