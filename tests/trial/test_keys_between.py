"""Two configuration files that a setting names, one in each run: their keys are its parts, or a note lists them."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_diverge.environment.hashing import hash_file
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord
from bisect_diverge.model.trial import Bisection, BisectVerdict, Cause, Role, Unit
from bisect_diverge.trial.draft import Sides, draft_of_a
from bisect_diverge.trial.keys_between import stand_ins, with_keys
from bisect_diverge.trial.parts import doubt_of, may_have_parts, parts_of
from bisect_diverge.trial.swap_file import swap
from tests.helpers.searches import record as record_command
from tests.helpers.searches import script, search

JSON_A = '{"opt": {"lr": 0.1, "wd": 0}, "name": "x"}'
JSON_B = '{"opt": {"lr": 0.2, "wd": 0}, "name": "y", "ema": true}'
TOKEN = "hf_abcdefghijklmnopqrstuvwx"


def of_file(folder: Path, name: str) -> Setting:
    """Return the row of a configuration file that a run has read."""
    return Setting(layer=Layer.CONFIGURATION, knob=f"file:{name}", value=hash_file(folder / name), resolved=False)


def record(folder: Path, name: str, text: str, *words: str) -> RunRecord:
    """Return a run that has read a configuration file, which its command names."""
    (folder / name).write_text(text)
    argv = ("t.py", *(words or ("--config", name)))
    return RunRecord(
        command=("python", *argv), argv=argv, cwd=str(folder), environment=Environment((of_file(folder, name),))
    )


def flag(a: str | None = "a.json", b: str | None = "b.json", knob: str = "argv.--config") -> Unit:
    """Return a setting that names files."""
    return Unit(layer=Layer.CONFIGURATION, knob=knob, a=a, b=b)


def notes(a: RunRecord, b: RunRecord, value_a: str | None, value_b: str | None) -> str:
    """Return the notes of a bisection that blames ``--config``."""
    cause = Cause(
        units=(flag(value_a, value_b),), role=Role.CAUSE, sufficient=True, necessary=True, same_divergence=True
    )
    return "\n".join(with_keys(Bisection(verdict=BisectVerdict.CAUSE, causes=(cause,)), a, b).notes)


def reads(folder: Path, a: RunRecord, b: RunRecord, *units: Unit) -> dict:
    """Return what a trial with these units swapped reads at A's path."""
    sides = Sides(a=a, b=b, last_step=0)
    trial = folder / "trial"
    trial.mkdir(exist_ok=True)
    draft = swap(sides, units, draft_of_a(sides, trial))
    return json.loads(Path(draft.paths[str(folder / "a.json")]).read_text())


def test_the_keys_are_listed(tmp_path: Path):
    """Where the setting was not taken apart; keys that only one file has are listed too."""
    a, b = record(tmp_path, "a.json", JSON_A), record(tmp_path, "b.json", JSON_B)

    assert notes(a, b, "a.json", "b.json") == (
        "the two files that argv.--config names differ in 3 keys, not tested one by one: opt.lr: 0.1 -> 0.2; "
        'name: "x" -> "y"; ema: (not set) -> true'
    )


def test_two_files_of_one_content(tmp_path: Path):
    """Something else than their keys is the cause."""
    a, b = record(tmp_path, "a.json", '{"lr": 1, "wd": 2}'), record(tmp_path, "b.json", '{"wd": 2, "lr": 1}')

    assert notes(a, b, "a.json", "b.json").startswith(
        "the two files that argv.--config names have the same keys and values: the name or the place of the file has"
    )
    assert parts_of(a, b, flag()) == ()


def test_a_credential_is_not_shown(tmp_path: Path):
    """Neither under a name of a secret, nor inside of a table, nor as a name; swapped it is all the same."""
    a = record(tmp_path, "a.json", f'{{"api_key": "alpha", "lr": 1, "{TOKEN}": 1}}')
    b = record(tmp_path, "b.json", f'{{"api_key": "omega", "lr": 1, "db": {{"password": "hush"}}, "{TOKEN}": 2}}')

    text = notes(a, b, "a.json", "b.json")
    assert "api_key: masked -> masked; masked: 1 -> 2; db: (not set) -> masked" in text
    keys = parts_of(a, b, flag())
    assert [(key.knob.partition(":")[2], key.a, key.b) for key in keys] == [
        ("a.json:api_key", "masked", "masked"),
        ("a.json:masked", "1", "2"),
        ("a.json:db", None, "masked"),
    ]
    assert not [secret for secret in ("alpha", "omega", "hush", TOKEN) if secret in f"{text} {keys}"]
    assert reads(tmp_path, a, b, *keys) == json.loads((tmp_path / "b.json").read_text())
    assert reads(tmp_path, a, b, keys[0]) == {"api_key": "omega", "lr": 1, TOKEN: 1}


def test_keys_are_parts(tmp_path: Path):
    """Of an argument, a position and a variable; one key is a part too, for a trial has to tell that it is all."""
    a, b = record(tmp_path, "a.json", JSON_A), record(tmp_path, "b.json", JSON_B)

    keys = parts_of(a, b, flag())
    assert {key.knob: (key.a, key.b) for key in keys} == {
        "file:a.json:opt.lr": ("0.1", "0.2"),
        "file:a.json:name": ('"x"', '"y"'),
        "file:a.json:ema": (None, "true"),
    }
    assert reads(tmp_path, a, b, keys[0], keys[2]) == json.loads(JSON_A.replace("0.1", "0.2")) | {"ema": True}
    assert "the name or the place of the file" in doubt_of(flag())
    assert doubt_of(replace(flag(), knob="file:a.json")) == ""

    (tmp_path / "sub").mkdir()
    here, there = record(tmp_path, "a.json", JSON_A, "a.json"), record(tmp_path, "sub/b.json", JSON_A[:-4] + '"y"}')
    there = there.with_(command=("python", "t.py", "sub/b.json"), argv=("t.py", "sub/b.json"))
    (key,) = parts_of(here, there, flag(b="sub/b.json", knob="argv.0"))
    assert (key.knob, key.a, key.b) == ("file:a.json:name", '"x"', '"y"')

    runs = [
        run.with_(
            command=("python", "t.py"),
            argv=("t.py",),
            environment=run.environment.merged(
                (Setting(layer=Layer.CONFIGURATION, knob="CONFIG", value=name, resolved=False),)
            ),
        )
        for run, name in ((a, "a.json"), (b, "b.json"))
    ]
    assert parts_of(*runs, flag(knob="CONFIG")) == keys


@pytest.mark.parametrize("values", [("a.json", None), ("0.1", "0.2"), ("a.json", "a.json"), ("a.json", "b.txt")])
def test_nothing_is_said_of_other_values(tmp_path: Path, values: tuple[str, str | None]):
    """A flag that names no two files of one format has no keys."""
    a, b = record(tmp_path, "a.json", '{"lr": 1}'), record(tmp_path, "b.txt", "lr 2")

    assert notes(a, b, *values) == ""
    assert not may_have_parts(flag(*values))


def test_what_is_not_taken_apart(tmp_path: Path):
    """Other formats, names that are no paths, files that were not read as configuration, and what is not one pair."""
    a, b = record(tmp_path, "a.json", JSON_A), record(tmp_path, "b.toml", "lr = 1\n")
    assert parts_of(a, b, flag(b="b.toml")) == ()
    assert not may_have_parts(flag(b="b.toml"))
    assert may_have_parts(flag("a.yml", "b.yaml"))
    assert not may_have_parts(flag("base", "large", knob="argv.--config-name"))

    b = record(tmp_path, "b.json", JSON_B)
    assert parts_of(a, b, flag(b="gone.json")) == ()
    assert stand_ins(a, b) == {"a.json": "b.json"}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.json").write_text("{}")
    changed = of_file(tmp_path / "other", "a.json")
    again = b.with_(environment=b.environment.merged((changed,)))
    assert stand_ins(a, again) == {}  # what B read as a.json is another unit
    assert parts_of(a, again, flag()) == ()

    words = ("--config", "a.json", "--base", "a.json"), ("--config", "b.json", "--base", "c.json")
    twice, two = record(tmp_path, "a.json", JSON_A, *words[0]), record(tmp_path, "b.json", JSON_B, *words[1])
    (tmp_path / "c.json").write_text("{}")
    two = two.with_(environment=two.environment.merged((of_file(tmp_path, "c.json"),)))
    assert stand_ins(twice, two) == {}


READS = """
import json
from pathlib import Path
path = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ["CONFIG"])
config = json.loads(path.read_text())
scale = config["train"]["scale"] * (1.5 if len(sys.argv) < 2 and path.stem == "large" else 1.0)
"""


@pytest.mark.matrix
def test_a_search_names_the_key_or_says_that_the_name_matters(tmp_path: Path):
    """The guilty key of four by a path on the command line; nothing but the setting where a script reads the name."""
    (tmp_path / "train.py").write_text(script(READS))
    values = {"small": (1.0, 3, "s"), "large": (2.0, 5, "l")}
    for name, (scale, epochs, tag) in values.items():
        config = {"tag": tag, "train": {"scale": scale, "epochs": epochs}, "log": {"every": epochs}}
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
        record_command(tmp_path, name, command=(sys.executable, "train.py", f"{name}.json"))
        record_command(tmp_path, f"by-{name}", CONFIG=f"{name}.json")

    found = search(tmp_path, a="small", b="large")
    (cause,) = found["causes"]
    (key,) = cause["units"]
    assert (key["knob"], key["a"], key["b"]) == ("file:small.json:train.scale", "1.0", "2.0")
    assert (cause["sufficient"], cause["necessary"], cause["same_divergence"]) == (True, True, True)
    assert [unit["knob"] for unit in cause["part_of"]] == ["argv.0"]
    assert {unit["knob"].rpartition(":")[2] for unit in found["innocent"]} == {"tag", "train.epochs", "log.every"}
    assert not any("one by one" in note for note in found["notes"])

    found = search(tmp_path, a="by-small", b="by-large")
    assert [unit["knob"] for cause in found["causes"] for unit in cause["units"]] == ["CONFIG"]
    said = "\n".join(found["notes"])
    assert "configuration.CONFIG was not taken apart" in said
    assert "the name or the place of the file has part in it" in said
    assert "differ in 4 keys, not tested one by one" in said
