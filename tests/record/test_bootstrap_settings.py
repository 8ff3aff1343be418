"""What a recorded command is told: in one variable, which Linux limits to 128 KiB."""

import json
import os
import subprocess
import sys

from bisect_diverge.model.environment import Layer, Setting
from bisect_diverge.record.bootstrap import environment_for
from bisect_diverge.record.settings import LONGEST, OUTSIDE, VARIABLE, Settings


def settings_of(run, count):
    """Return settings with many files in the source."""
    rows = (
        Setting(layer=Layer.SOURCE, knob=f"file:{n}.py", value="xxh3:" + "0" * 32, resolved=False) for n in range(count)
    )
    return Settings(run=str(run), outside=tuple(rows), bootstrap="there")


def test_few_settings_travel_in_the_variable(tmp_path):
    """Nothing is written anywhere."""
    told = environment_for(settings_of(tmp_path, 10), {"SEED": "1"})[VARIABLE]
    assert Settings.from_json(told).given == {"SEED": "1"}
    assert not list(tmp_path.iterdir())


def test_many_settings_are_read_from_a_file(tmp_path):
    """A script with two thousand modules can be started, and is told all of them, as is who tells it on."""
    settings = settings_of(tmp_path, 2000)
    environment = environment_for(settings, dict(os.environ))
    assert len(environment[VARIABLE]) < LONGEST
    subprocess.run([sys.executable, "-I", "-c", ""], env=environment, check=True)
    told = Settings.from_json(environment[VARIABLE])
    assert told.outside == settings.outside
    assert len(told.to_json()) < LONGEST
    assert Settings.from_json(told.to_json()).outside == settings.outside
    assert len(json.loads((tmp_path / OUTSIDE).read_text())) == 2000


def test_long_variables_are_left_to_the_process(tmp_path):
    """It sees them itself."""
    told = environment_for(settings_of(tmp_path, 1), {"HF_LONG": "x" * LONGEST})[VARIABLE]
    assert len(told) < LONGEST
    assert Settings.from_json(told).given is None
