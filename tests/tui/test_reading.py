"""Reading in the background: one thread, what is stale is dropped, what fails is shown."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from bisect_diverge.model.divergence import ElementStatistics
from bisect_diverge.tui import numbers, states
from bisect_diverge.tui.reader import Reader, StoppedError
from bisect_diverge.tui.records import Records
from tests.tui.fake import FakeComparison
from tests.tui.screens import press, remarks, screen, settle, text_of, walking


async def test_jobs_run_one_after_the_other_in_one_thread() -> None:
    """Whoever asks, the files see one thread."""
    reader = Reader()
    names = await asyncio.gather(*(reader.run(lambda _: threading.current_thread().name) for _ in range(5)))
    reader.close()

    assert len(set(names)) == 1
    assert threading.current_thread().name not in names


async def test_a_cancelled_request_never_starts_and_a_running_one_is_told() -> None:
    """The newest request does not wait for those that nobody waits for any more."""
    reader = Reader()
    running, told, started = threading.Event(), threading.Event(), []

    def slow(stopped: object) -> None:
        running.set()
        while not stopped():  # type: ignore[operator]
            pass
        told.set()

    first = asyncio.create_task(reader.run(slow))
    await asyncio.to_thread(running.wait, 10)
    second = asyncio.create_task(reader.run(lambda _: started.append(1)))
    await asyncio.sleep(0)
    second.cancel()
    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert await reader.run(lambda _: 7) == 7
    reader.close()

    assert told.is_set()
    assert started == []


class SlowComparison(FakeComparison):
    """Reads nothing until it is allowed to."""

    def __init__(self) -> None:
        super().__init__(400)
        self.allowed = threading.Event()
        self.asked = threading.Event()

    def producers(self, index: int) -> list[int]:
        """Wait first."""
        self.asked.set()
        assert self.allowed.wait(10)
        return super().producers(index)

    def statistics(self, index: int) -> ElementStatistics | None:
        """Wait first, but for the verdict's."""
        return super().statistics(index)


async def test_a_slow_read_is_said_and_can_be_left() -> None:
    """The pane says that it reads; esc gives up; the screen answers all the while."""
    from bisect_diverge.tui.app import WalkApp
    from tests.tui.screens import COMMANDS

    comparison = SlowComparison()
    app = WalkApp(comparison, COMMANDS)
    async with app.run_test(size=(120, 40)) as pilot:
        await asyncio.to_thread(comparison.asked.wait, 10)
        await pilot.pause()
        assert "reading the tensors …" in text_of(pilot)
        await pilot.press("left_square_bracket")
        assert "the data flow is still being read" in remarks(pilot)
        await pilot.press("n", "escape")
        await pilot.pause()
        assert "reading stopped (esc)" in text_of(pilot)
        comparison.allowed.set()
        await settle(pilot)
        await press(pilot, "n")
        assert "min " in text_of(pilot)
    app.reader.close()


async def test_reading_the_addresses_can_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the search has to read the addresses first, the title says how far it is and esc ends it."""
    allowed = threading.Event()

    def source(comparison: object, stopped: object, progress: object) -> None:
        progress(0.25)  # type: ignore[operator]
        while not stopped():  # type: ignore[operator]
            allowed.wait(0.01)
        raise StoppedError

    async with walking(FakeComparison(400), (120, 40)) as pilot:
        screen(pilot).columns_source = source  # type: ignore[assignment]
        await pilot.press("slash", "x", "enter")
        while "25%" not in text_of(pilot):
            await pilot.pause()
        assert "reading addresses 25%, esc stops" in text_of(pilot)
        await press(pilot, "escape")
        assert "reading addresses" not in text_of(pilot)

        def broken(comparison: object, stopped: object, progress: object) -> None:
            raise OSError("no more")

        screen(pilot).columns_source = broken  # type: ignore[assignment]
        await press(pilot, "p")
        assert "the addresses cannot be read: no more" in remarks(pilot)


async def test_failures_are_states_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records, tensors and data flow that cannot be read are shown where they stand, with the reason."""
    comparison = FakeComparison(400, failing=[260], lost=[261])

    def broken(index: int) -> list[int]:
        raise OSError("no flow")

    monkeypatch.setattr(comparison, "producers", broken)
    async with walking(comparison) as pilot:
        text = text_of(pilot)
        assert "▶ ! fwd" in text
        assert "! unreadable: read error at offset 4096" in text
        assert "! unreadable: no flow" in text
        await press(pilot, "j")
        assert "! unreadable: the file is cut off" in text_of(pilot)
        await press(pilot, "y")
        assert "no address here" in remarks(pilot)


def test_records_are_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A screen asks for the same rows again and again; memory holds a limited number."""
    monkeypatch.setattr("bisect_diverge.tui.records._KEPT", 3)
    records = Records(FakeComparison(50))
    rows = [records.at(index) for index in range(5)]

    assert rows[4] is records.at(4)
    assert rows[0] is not records.at(0)


def test_an_error_has_one_line() -> None:
    """What a library writes over several lines would break the screen."""
    records = Records(FakeComparison(50, lost=[3]))

    assert records.at(3).problem == "the file is cut off"
    assert records.at(3).state == states.UNREADABLE


@pytest.mark.parametrize("piece", [7, 1 << 22])
def test_numbers_do_not_depend_on_the_size_of_the_pieces(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large tensors are looked at in pieces: smallest, largest, mean and histogram are those of the whole."""
    comparison = FakeComparison(400)
    a, b = comparison.tensors(260)
    a[0, 0, :3] = [np.nan, np.inf, -np.inf]
    monkeypatch.setattr(numbers, "_PIECE", piece)
    monkeypatch.setattr(comparison, "tensors", lambda index: (a, b))

    found = numbers.measure(comparison, Records(comparison).at(260), lambda: False)

    finite = a[np.isfinite(a)].astype(float)
    assert (found.a.nan, found.a.inf, found.a.numel) == (1, 2, 512)
    assert (finite.min(), finite.max()) == (found.a.minimum, found.a.maximum)
    assert found.a.mean == pytest.approx(finite.mean())
    assert sum(count for _, count in found.histogram) == 512


def test_measuring_stops_when_nobody_waits() -> None:
    """Between two pieces the reader looks whether its asker still waits."""
    comparison = FakeComparison(400)
    with pytest.raises(StoppedError):
        numbers.measure(comparison, Records(comparison).at(260), lambda: True)
