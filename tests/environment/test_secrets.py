"""Credentials are masked, and nothing else is."""

import pytest

from bisect_diverge.environment.arguments import mask_argv, split
from bisect_diverge.environment.knobs import setting
from bisect_diverge.environment.patch import mask_patch
from bisect_diverge.environment.secrets import MASKED, is_secret, looks_secret, mask_code, mask_data
from bisect_diverge.model.environment import Layer

RANDOM = "q7Zr2Kd9Wm4Xt6Bv1Ny8Ps3J"
"""Put together at random; belongs to nothing."""

SHAPES = {
    "github": "ghp_" + "a1B2" * 9,
    "github fine-grained": "github_pat_" + "11AB" * 8,
    "hugging face": "hf_" + "aBcD" * 8,
    "aws": "AKIA" + "ABCD2345" * 2,
    "openai": "sk-" + "proj-a1B2c3D4" * 3,
    "slack": "xoxb-" + "1234567890-abc",
    "json web token": "eyJ" + "hbGciOiJI" + ".eyJ" + "zdWIiOiIx" + ".c2ln",
    "url": "https://ann:" + "hunter22@example.org/data",
    "database": "postgresql://ann:" + "hunter22@db:5432/runs",
    "header": "Authorization: Bearer " + "abcdefgh1234",
    "signed url": "https://bucket.example.org/x?X-Amz-Signature=" + "0123abcd" * 4,
    "nested": "user=ann,password=" + "hunter22",
    "json": '{"api_key": "' + 'hunter22"}',
    "random": RANDOM,
}

NAMES = ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "--password", "--apiKey", "db.passwd", "--auth-token"]

PLAIN = [
    ("--lr", "0.1"),
    ("--max-token", "512"),
    ("--max-tokens", "512"),
    ("--pad-token", "<pad>"),
    ("--tokenizer", "bert-base-uncased"),
    ("--num-key-value-heads", "8"),
    ("--author", "ann"),
    ("--revision", "5c411d8cfba7ad5dd471e25b13e55258aa10f00d"),
    ("--model", "ResNet50ImageNet1kPretrainedV2"),
    ("--data", "/data/ImageNet2012/train_256px/part-00001-of-00128"),
    ("TOKENIZERS_PARALLELISM", "false"),
    ("--url", "https://example.org/data.tar"),
    ("OMP_PROC_BIND", "close"),
]


@pytest.mark.parametrize("kind", SHAPES)
def test_a_credential_is_known_by_its_shape(kind):
    """A value that looks like a credential is one, whatever its name."""
    assert looks_secret(SHAPES[kind])


@pytest.mark.parametrize("name", NAMES)
def test_a_credential_is_known_by_its_name(name):
    """A name that says so makes any value a secret."""
    assert is_secret(name, "hunter")


@pytest.mark.parametrize(("name", "value"), PLAIN)
def test_ordinary_settings_stay_readable(name, value):
    """Names and values of ordinary training flags are not masked."""
    assert not is_secret(name, value)


@pytest.mark.parametrize("kind", SHAPES)
def test_no_setting_holds_a_credential(kind):
    """The one function that makes settings masks by shape, and says so in the row."""
    row = setting(Layer.DATASET, "data.0", SHAPES[kind], resolved=False)

    assert (row.value, row.masked) == (MASKED, True)


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("template", [["--x", "{}"], ["--x={}"], ["{}"], ["x={}"], ["--", "{}"]])
def test_argv_is_masked_by_shape(kind, template):
    """A credential is masked wherever it stands in a command line."""
    argv = ["train.py", *(part.format(SHAPES[kind]) for part in template), "--lr", "1"]

    masked = mask_argv(argv)

    assert not any(SHAPES[kind] in token for token in masked)
    assert (masked[0], *masked[-2:]) == ("train.py", "--lr", "1")


@pytest.mark.parametrize("argv", [["--token", "abc"], ["--token=abc"], ["env", "HF_TOKEN=abc"], ["+hub.token=abc"]])
def test_argv_is_masked_by_name(argv):
    """Both ``--token X`` and ``--token=X`` are masked, and so is an override."""
    assert not any("abc" in token for token in mask_argv(["x", *argv]))


def test_arguments_are_named_alike_however_they_are_written():
    """``--lr 0.1`` and ``--lr=0.1`` are the same knob with the same value."""
    one = [(a.name, a.value) for a in split(["--lr", "0.1", "--amp", "--shift", "-1", "data", "model.depth=3"])]
    other = [(a.name, a.value) for a in split(["--lr=0.1", "--amp", "--shift=-1", "data", "model.depth=3"])]

    assert one == [("--lr", "0.1"), ("--amp", "set"), ("--shift", "-1"), ("0", "data"), ("model.depth", "3")]
    assert one == other


def test_a_repeated_flag_has_a_number():
    """The second ``--aug`` is another knob than the first."""
    assert [a.name for a in split(["--aug", "flip", "--aug", "crop"])] == ["--aug", "--aug#2"]


def test_everything_after_two_dashes_is_positional():
    """What follows ``--`` is no flag, whatever it looks like."""
    assert [(a.name, a.value) for a in split(["--", "--lr", "3"])] == [("0", "--lr"), ("1", "3")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('API_KEY = "hunter22"', 'API_KEY = "masked"'),
        ("client = Client(token='hunter22', retries=3)", "client = Client(token='masked', retries=3)"),
        ('os.environ["WANDB_API_KEY"] = "hunter22"', 'os.environ["WANDB_API_KEY"] = "masked"'),
        ('os.environ.setdefault("HF_TOKEN", "hunter22")', 'os.environ.setdefault("HF_TOKEN", "masked")'),
        (f'x = "{RANDOM}"', 'x = "masked"'),
    ],
)
def test_literals_in_code_are_masked(line, expected):
    """In code the value of a literal is replaced and the rest of the line stays."""
    assert expected == mask_code(line)


@pytest.mark.parametrize(
    "line",
    [
        "def attention(query, key, value, mask=None):",
        "tokens = tokenizer(text, return_tensors='pt')",
        "key = jax.random.split(key)[0]",
        'WORDS = ["token", "key", "auth"]',
        'text = cache[key] = f"{name}:{line}"',
        "rows.sort(key=lambda row: row.name)",
    ],
)
def test_code_about_keys_and_tokens_stays(line):
    """A patch of a model's code is not mangled."""
    assert line == mask_code(line)


def test_configuration_needs_no_quotes():
    """In a YAML or .env file the bare word is the value."""
    assert tuple(map(mask_data, ("api_key: hunter22", "DB_PASSWORD=hunter22", "lr: 0.1"))) == (
        "api_key: masked",
        "DB_PASSWORD=masked",
        "lr: 0.1",
    )


PATCH = """diff --git a/train.py b/train.py
--- a/train.py
+++ b/train.py
@@ -1,3 +1,4 @@
 import torch
-TOKEN = "hunter-old"
+TOKEN = "hunter-new"
+lr = 0.1
diff --git a/settings.yaml b/settings.yaml
--- /dev/null
+++ b/settings.yaml
@@ -0,0 +1,5 @@
+password: hunter-yaml
+-----BEGIN RSA PRIVATE KEY-----
+hunterPEM
+-----END RSA PRIVATE KEY-----
+depth: 3
"""


def test_a_patch_loses_its_credentials_and_nothing_else():
    """Literals, bare values and key blocks are masked; lines are counted and stay in place."""
    masked = mask_patch(PATCH.encode())
    text = masked.patch.decode()

    assert "hunter" not in text
    assert len(PATCH.splitlines()) == len(text.splitlines())
    assert all(line in text for line in ("+lr = 0.1", "+depth: 3", "+++ b/settings.yaml", " import torch"))
    assert not masked.applies


def test_a_patch_with_masked_additions_still_applies():
    """Only what must be found in the file decides whether a patch applies."""
    added = mask_patch(PATCH.replace('-TOKEN = "hunter-old"\n', "").encode())

    assert (added.lines, added.applies) == (4, True)


def test_a_patch_without_credentials_is_untouched():
    """Bytes that are no text come through as they are."""
    patch = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-\xff\xfe\n+\xfe\xff\n"

    assert (patch, 0) == (mask_patch(patch).patch, mask_patch(patch).lines)
