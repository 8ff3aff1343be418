"""The sample models repeat themselves bit for bit, recorded or not."""

import ast
import re
import sys

import pytest
import torch

from tests.helpers.command import REPOSITORY, bd, run

FOLDER = REPOSITORY / "sample_models"
SAMPLES = sorted(path.stem for path in FOLDER.glob("*.py"))
FLAGS = {"--seed", "--steps", "--lr", "--workers", "--batch-size", "--out"}
VALIDATION = re.compile(r"^validation (accuracy|loss) \d+\.\d+", re.MULTILINE)


def script(sample):
    """Return the file of a sample."""
    return FOLDER / f"{sample}.py"


class Trained:
    """What a short training printed, and the weights that it saved."""

    def __init__(self, command, out):
        done = command(out)
        self.printed = done.stdout
        self.complaints = done.stderr
        self.weights = torch.load(out)

    def bits(self):
        """Return name to dtype, shape and bytes of every tensor of the state dict."""
        return {
            name: (tensor.dtype, tensor.shape, tensor.contiguous().numpy().tobytes())
            for name, tensor in self.weights.items()
        }


def train(sample, out, *flags):
    """Train a sample for three steps, as a user would."""
    return Trained(lambda to: run(sys.executable, script(sample), "--steps", "3", "--out", to, *flags), out)


def train_recorded(sample, out, run_folder, capture, *flags):
    """Train a sample for three steps under ``bd record``."""

    def command(to):
        training = [sys.executable, script(sample), "--steps", "3", "--out", to, *flags]
        return bd("record", "-o", run_folder, "--capture", capture, "--", *training)

    return Trained(command, out)


@pytest.fixture(scope="module", params=SAMPLES)
def sample(request):
    """Every sample model in turn."""
    return request.param


@pytest.fixture(scope="module")
def folder(sample, tmp_path_factory):
    """A folder for what is made of one sample."""
    return tmp_path_factory.mktemp(sample)


@pytest.fixture(scope="module")
def plain(sample, folder):
    """The sample trained without us."""
    return train(sample, folder / "plain.pt")


@pytest.fixture(scope="module")
def recorded(sample, folder):
    """The sample trained under the recorder in each capture mode, and the folders of the runs."""
    return {
        capture: (
            train_recorded(sample, folder / f"{capture}.pt", folder / capture, capture),
            folder / capture,
        )
        for capture in ("full", "digest")
    }


def test_a_sample_prints_a_validation_number(plain):
    """The last line is the number that a user would compare, and nothing is complained about."""
    assert VALIDATION.match(plain.printed.splitlines()[-1])
    assert plain.complaints == ""


def test_a_sample_repeats_itself(sample, plain, folder):
    """Two runs with one seed print the same and end with the same bits."""
    again = train(sample, folder / "again.pt")
    assert again.printed == plain.printed
    assert again.bits() == plain.bits()


def test_a_seed_changes_the_weights(sample, plain, folder):
    """Another seed gives other weights, so the seed is really used."""
    other = train(sample, folder / "seed.pt", "--seed", "1")
    assert other.printed != plain.printed
    assert other.bits() != plain.bits()


@pytest.mark.slow
@pytest.mark.parametrize("capture", ["full", "digest"])
def test_recording_changes_no_bit(plain, recorded, capture):
    """The recorder changes neither a bit of the final weights nor what the script prints."""
    trained, _ = recorded[capture]
    assert trained.printed == plain.printed
    assert trained.bits() == plain.bits()


@pytest.mark.slow
def test_two_recordings_of_the_same_are_equal(recorded):
    """Two recordings of one training, in different capture modes, have no false divergence."""
    done = bd("diff", recorded["full"][1], recorded["digest"][1])
    assert "equal" in done.stdout


@pytest.mark.slow
def test_recording_changes_no_bit_with_loader_processes(tmp_path):
    """With two loader processes too the recorder changes neither the batches nor the weights."""
    plain = train("digits_cnn", tmp_path / "plain.pt", "--workers", "2")
    recorded = train_recorded("digits_cnn", tmp_path / "recorded.pt", tmp_path / "run", "full", "--workers", "2")
    assert recorded.printed == plain.printed
    assert recorded.bits() == plain.bits()


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_knows_nothing_of_us(name):
    """A sample is a plain PyTorch script: it imports nothing of this package."""
    tree = ast.parse(script(name).read_text())
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported - set(sys.stdlib_module_names) <= {"numpy", "sklearn", "torch"}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_has_the_usual_flags(name):
    """Every sample takes the same flags."""
    assert set(re.findall(r'add_argument\("(--[a-z-]+)"', script(name).read_text())) == FLAGS
