"""Gives seed setters other seeds than those that the script passes, call by call, and generators a first state."""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bisect_diverge.environment.seeds import FAMILIES, INITIAL, LOADER, RANK, SEQUENCE, STATE, number_in, plain
from bisect_diverge.environment.setters import NUMPY_SETTERS, SETTERS, Setter, is_import_of_a_library, is_inside
from bisect_diverge.record.initial import force, place
from bisect_diverge.record.patches import Patches

if TYPE_CHECKING:
    from bisect_diverge.record.overrides import Owner


def hold_seeds(pins: dict[str, str], recorder: Owner, patches: Patches) -> None:
    """Hold what the generators begin with.

    Args:
        pins: ``seeds.SETTER`` to a JSON list with the text of a seed for each call, null where the script's own is
            taken; ``seeds.initial-state.FAMILY`` to the path of a kept state. Behind it stands which process is meant:
            ``@rank1``, ``@SpawnProcess-2``; nothing: the first rank.
        recorder: Gets a note of each call that was overridden.
        patches: Takes it all back.
    """
    pins = _of_this_process(pins)
    for setter in (*SETTERS, *NUMPY_SETTERS):
        texts = pins.get(f"seeds.{setter.knob}")
        if texts is None:
            continue
        for name in setter.modules:
            module = sys.modules.get(name)
            original = getattr(module, setter.name, None)
            if module is not None and original is not None:
                held = _held(setter, original, json.loads(texts), recorder)
                patches.replace(module, setter.name, held, like=original)
    for knob, text in pins.items():
        if knob.startswith(f"seeds.{LOADER}"):
            generators[knob.removeprefix("seeds.")] = json.loads(text)[0]
    for knob, state in pins.items():
        family = knob.removeprefix(f"seeds.{INITIAL}")
        if family != knob:
            force(family, Path(state).read_text(encoding="utf-8"))


def _of_this_process(pins: dict[str, str]) -> dict[str, str]:
    """Return the pins of this process, without what says whose they are; one that says nothing is the first rank's."""
    here = place()
    mine = {"", f"{RANK}0".removeprefix("@")} if here in ("", "rank0") else {here}
    parts = ((knob.partition("@"), value) for knob, value in pins.items())
    return {knob: value for (knob, _, whose), value in parts if whose in mine}


generators: dict[str, str | None] = {}
"""Knob of a generator that a data loader was given to the text of its seed."""


def hold_generator(knob: str, generator: Any) -> None:
    """Give a loader's own generator the seed or state that is held, if one is."""
    text = generators.get(knob)
    if text is None:
        return
    if text.startswith(STATE):
        words = json.loads(Path(text.removeprefix(STATE)).read_text(encoding="utf-8"))
        generator.set_state(sys.modules["torch"].tensor(words, dtype=sys.modules["torch"].uint8))
    else:
        generator.manual_seed(seed_of(text))


_calls: dict[str, int] = {}
"""Setter to the number of its calls: torch has each under two names."""


def _held(setter: Setter, original: Any, texts: list[str | None], recorder: Owner) -> Callable[..., Any]:
    pid = os.getpid()
    _calls[setter.knob] = 0

    def seeded(*args: Any, **kwargs: Any) -> Any:
        if is_inside() or os.getpid() != pid or is_import_of_a_library():
            return original(*args, **kwargs)
        number = _calls[setter.knob]
        _calls[setter.knob] = number + 1
        text = texts[number] if number < len(texts) else None
        if text is None:
            return original(*args, **kwargs)
        recorder.notes.append(f"call {number + 1} of {setter.knob} got the seed {text}")
        return _call(setter, original, text)

    return seeded


def _call(setter: Setter, original: Any, text: str) -> Any:
    """Call a setter with the seed that a text stands for."""
    if text.startswith(STATE):
        result = original()
        family = next(family for family, knobs in FAMILIES.items() if setter.knob in knobs)
        force(family, Path(text.removeprefix(STATE)).read_text(encoding="utf-8"))
        return result
    seed = seed_of(text)
    if setter.knob == "torch.seed":  # it takes none, and returns the one that it found
        sys.modules["torch"].manual_seed(seed)
        return seed
    return original(seed)


def seed_of(text: str) -> Any:
    """Return the seed that a text stands for, as `environment.setters` writes it.

    Raises:
        ValueError, SyntaxError: if it stands for none.
    """
    number = number_in(text)
    if number is not None:
        return number
    sequence = SEQUENCE.fullmatch(text)
    if sequence is not None:
        return sys.modules["numpy"].random.SeedSequence(ast.literal_eval(sequence[1]))
    return ast.literal_eval(plain(text))
