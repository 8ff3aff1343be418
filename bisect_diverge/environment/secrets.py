"""Finding credentials, so that none is ever written into a recording.

A value is masked when its *name* says that it is a secret (``HF_TOKEN``, ``--api-key``) or when its *shape*
does (``ghp_...``, a JSON web token, ``https://user:password@host``, a long random string). Masked means that
nothing derived from it is kept, no hash either: hashes of short secrets can be guessed. The price is that
two masked values cannot be compared, and the differ says so.
"""

from __future__ import annotations

import re
from itertools import pairwise

MASKED = "masked"
"""What stands in place of a credential."""

SECRET_WORDS = frozenset(
    {
        "apikey", "accesskey", "secretkey", "privatekey", "authtoken", "accesstoken", "secret", "secrets",
        "password", "passwords", "passwd", "passphrase", "passcode", "pwd", "credential", "credentials",
    }
)  # fmt: skip
"""A name with one of these words is always a secret's."""

SECRET_PAIRS = frozenset(
    (first, second)
    for first in ("api", "access", "private", "secret", "auth", "account", "license", "encryption", "signing")
    for second in ("key", "keys", "token", "tokens")
)
"""So is a name with two such words in a row."""

DOUBTFUL_WORDS = frozenset({"token", "key", "auth", "bearer", "cookie", "pat", "dsn"})
"""So is a name with one of these, unless the value is plainly none, as in ``--max-token 512``."""

ENDS = (
    "pass", "passwd", "password", "passphrase", "pw", "pwd", "secret", "token", "tok", "key", "auth", "authorization",
    "cred", "creds", "credentials", "cookie", "session", "webhook", "dsn",
)  # fmt: skip
"""Ends of words in the names of variables that nobody has put on a list."""

PLAIN_VALUE = re.compile(
    r"""
    [-+]?[\d_.]+(e[-+]?\d+)?%?                                   # a number
    | true|false|yes|no|on|off|none|null|auto|default|set|unset  # a switch
    | <[^<>]*> | \[[^\[\]]*\]                                    # a special token of a tokenizer
    | masked                                                     # hidden already
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Values that are no secret even under a doubtful name."""

SHAPES = re.compile(
    r"""
    \b(gh[pousr]_[A-Za-z0-9]{16,} | github_pat_\w{16,})   # GitHub
    | \bglpat-[\w-]{16,}                                  # GitLab
    | \bhf_[A-Za-z0-9]{16,}                               # Hugging Face
    | \b(AKIA|ASIA)[0-9A-Z]{16}                           # AWS
    | \bsk[-_][\w-]{16,}                                  # OpenAI, Anthropic, Stripe
    | \b(nvapi-|gsk_|r8_|dop_v1_|npm_|pypi-)[\w-]{16,}    # NVIDIA, Groq, Replicate, DigitalOcean, npm, PyPI
    | \bxox[a-z]-[\w-]{8,}                                # Slack
    | \bAIza[\w-]{30,} | \bya29\.[\w.-]{16,}              # Google
    | \beyJ[\w-]{8,}\.[\w-]{8,}(\.[\w-]*)?                # JSON web token
    | \bSG\.[\w-]{16,}\.[\w-]{16,}                        # SendGrid
    | (?<=://)[^\s/@:]*:[^\s/@]+(?=@)                     # user:password in a URL
    | (?<=://)[^\s/@:]{16,}(?=@)                          # token in a URL
    | \b(Bearer|Basic)\s+[\w.~+/=-]{8,}                   # authorization header
    | (?<=[?&])(sig|signature|X-Amz-\w+|X-Goog-\w+)=[^&\s'"]+   # signed URL
    | -----BEGIN[ A-Z]*PRIVATE\ KEY-----                  # PEM
    """,
    re.VERBOSE,
)
"""Shapes of known credentials."""

SHAPE_HINTS = (
    "_", "-", "AKIA", "ASIA", "AIza", "ya29.", "eyJ", "SG.", "://", "Bearer", "Basic", "sig",
)  # fmt: skip
"""One of these is in every text that `SHAPES` finds something in."""

NAME_HINTS = ("token", "key", "auth", "secret", "pass", "pwd", "credential", "bearer", "cookie", "pat", "dsn")
"""One of these is in every name that says that it is a secret's, in small letters."""

NAMED = re.compile(r"""(?P<name>[A-Za-z_][\w.-]*)["']?(?P<link>\s*[=:]\s*)(?P<quote>["']?)(?P<value>[^\s"',;&}]+)""")
"""``name=value`` or ``"name": "value"`` inside a value."""

LITERAL = re.compile(
    r"""
    (?P<name>[A-Za-z_][\w.-]*)
    (["']\s*\])? ["']?
    \s* (?P<link>[=:,]) \s* [rbfu]{0,2}
    (?P<quote>["']) (?P<value>[^"'{]{4,}) (?P=quote)
    """,
    re.VERBOSE,
)
"""``name = "value"``, ``["name"] = "value"`` or ``"name", "value"`` in source code."""

QUOTED = re.compile(r"""["'][^"']{20,}["']""")
PIECE = re.compile(r"[A-Za-z0-9]{20,}")


def secret_name(name: str, value: str) -> bool:
    """Whether a name says that its value is a secret."""
    words = _words(name)
    if SECRET_WORDS.intersection(words) or SECRET_PAIRS.intersection(pairwise(words)):
        return bool(value)
    return bool(DOUBTFUL_WORDS.intersection(words)) and bool(value) and not PLAIN_VALUE.fullmatch(value)


def may_be_secret(name: str, value: str) -> bool:
    """Whether a name can be that of a secret: a stricter look than `secret_name`, for names that no table lists.

    A script reads ``PGPASS``, ``DB_PW``, ``HFTOK``: short secrets that no shape gives away.
    """
    return any(word.endswith(ENDS) for word in _words(name)) and bool(value) and not PLAIN_VALUE.fullmatch(value)


def _words(name: str) -> list[str]:
    return [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def looks_secret(value: str) -> bool:
    """Whether a value looks like a credential, or contains one, whatever its name."""
    if len(value) < 6:
        return False
    if SHAPES.search(value) or any(_random(match[0]) for match in PIECE.finditer(value)):
        return True
    return any(secret_name(match["name"], match["value"]) for match in NAMED.finditer(value))


def is_secret(name: str, value: str) -> bool:
    """Whether the value of a variable or flag must be masked."""
    return secret_name(name, value) or looks_secret(value)


def mask_code(text: str) -> str:
    """Return a line of source code with the credentials in its literals replaced."""
    text = _mask_shapes(text)
    if '"' not in text and "'" not in text:
        return text
    if len(text) > 20:
        text = QUOTED.sub(lambda literal: PIECE.sub(_mask_random, literal[0]), text)
    return LITERAL.sub(_mask_named, text) if _has_name(text) else text


def mask_data(text: str) -> str:
    """Return a line of a configuration file, where values need no quotes, with its credentials replaced."""
    text = PIECE.sub(_mask_random, _mask_shapes(text))
    return NAMED.sub(_mask_named, LITERAL.sub(_mask_named, text)) if _has_name(text) else text


def _mask_shapes(text: str) -> str:
    return SHAPES.sub(MASKED, text) if any(hint in text for hint in SHAPE_HINTS) else text


def _has_name(text: str) -> bool:
    small = text.lower()
    return any(hint in small for hint in NAME_HINTS)


def _mask_random(match: re.Match[str]) -> str:
    return MASKED if _random(match[0]) else match[0]


def _mask_named(match: re.Match[str]) -> str:
    if not secret_name(match["name"], match["value"]):
        return match[0]
    if match["link"] == "," and not any(c.isdigit() for c in match["value"]):
        return match[0]  # two neighbours in a list of words
    start, end = match.start("value") - match.start(), match.end("value") - match.start()
    return match[0][:start] + MASKED + match[0][end:]


def _random(piece: str) -> bool:
    """Whether letters of both cases and digits alternate as in a random string.

    In a random string of letters and digits 62 % of neighbours are of different classes; in names such as
    ``ResNet50ImageNet1kPretrainedV2`` less than half are. Hexadecimal digests have only two classes and are
    kept: they are revisions of code and models far more often than secrets.
    """
    classes = ["d" if c.isdigit() else "u" if c.isupper() else "l" for c in piece]
    if len(set(classes)) < 3:
        return False
    changes = sum(a != b for a, b in pairwise(classes))
    return changes / (len(piece) - 1) >= 0.5
