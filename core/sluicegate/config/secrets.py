"""Redacts secrets from messages about a configuration.

A mistyped key (`pasword`) still precedes a password, so keys are matched by similarity. A value is redacted
for any of three reasons: the parser found it under a secret key, its line looks like a secret key with a
value (for text that is not YAML), or it equals a secret found elsewhere.
"""

import re
from collections.abc import Collection, Mapping
from difflib import SequenceMatcher
from functools import lru_cache

HIDDEN = "***"
"""Replaces redacted text."""

_SECRETS = ("password", "passphrase", "passcode", "secret", "token", "credential", "authorization")
_PARTS = ("pass", "pwd", "secret", "token", "cred", "jaas", "bearer", "apikey", "accesskey", "privatekey")
"""Substrings that mark a key as secret."""
_SHORT = frozenset({"auth", "authorization", "cookie", "jwt", "otp", "pin", "psk", "sas", "sig", "tkn"})
"""Words of a key that are matched exactly, because most are too short for similarity."""
_ALIKE = 0.7
"""Similarity, 0 to 1, from which a word counts as a misspelling of another: `tokn`, `secert`."""
_LONGEST_WORD = 14
"""Most letters of a word in a key; a longer word may be a key with its value attached."""
_LONGEST_KEY = 100
_SHORT_SECRET = 3
"""Secrets up to this length are redacted only where they are whole words."""

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_NAME = re.compile(r"[A-Za-z_.-]+")
_KEY_IN_TEXT = re.compile(r"""([\w.-]+)(?:\\?["'])?(?:\s*[:=]\s*|\s*(?=[^\s#,}\])"']))""")
"""A word followed by what may be its value."""
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_WORD = re.compile(r"[\w.-]+")
_URL_LOGIN = re.compile(r"(?<=://)[^\s\"']*@")
_LOGIN = re.compile(r"(?<=//)[^\s\"']*@|[^\s\"'\[\]{},]+:[^\s\"'\[\]{},]*@(?=[^\s@]+:[0-9])")
"""User name and password of a URL. A slash in the password should be encoded, but often is not."""
_QUERY = re.compile(r"(?<=://)([^\s\"'?]*\?)[^\s\"']+")


@lru_cache(4096)
def resembles_secret(key: str) -> bool:
    """Whether a key denotes a secret, or may be a misspelling of one that does, such as `sasl_pasword`."""
    key = key[:_LONGEST_KEY]
    plain = re.sub(r"[^a-z]", "", key.lower())
    if any(part in plain for part in _PARTS):
        return True
    return any(_is_secret(word.lower()) for word in {plain, *_WORDS.findall(key)})


def _is_secret(word: str) -> bool:
    if word in _SHORT:
        return True
    if word.startswith("p") and "w" in word and _abbreviates(word, "password"):
        return True
    return any(_likeness(word, secret) >= _ALIKE for secret in _SECRETS)


def _abbreviates(word: str, whole: str) -> bool:
    letters = iter(whole)
    return all(letter in letters for letter in word)


def _likeness(word: str, other: str) -> float:
    matcher = SequenceMatcher(None, word, other)
    # These upper bounds are cheap, and rule out most words.
    if matcher.real_quick_ratio() < _ALIKE or matcher.quick_ratio() < _ALIKE:
        return 0.0
    return matcher.ratio()


def hides(path: Collection[str | int]) -> bool:
    """Whether the value at a path is secret: true if one of the path's keys resembles a secret."""
    return any(isinstance(step, str) and resembles_secret(step) for step in path)


def shown_key(key: str) -> str:
    """A key for messages, redacted if a secret may be attached to it (`password:hunter2`)."""
    if not resembles_secret(key):
        return shown_text(key)
    is_name = _NAME.fullmatch(key) is not None
    return key if is_name and all(len(word) <= _LONGEST_WORD for word in re.split(r"[_.-]", key)) else HIDDEN


def shown_path(path: Collection[str | int]) -> str:
    """A dotted path for messages, cut after the first key that resembles a secret."""
    steps: list[str] = []
    for step in path:
        steps.append(shown_key(step) if isinstance(step, str) else str(step))
        if isinstance(step, str) and resembles_secret(step):
            break
    return ".".join(steps)


def shown_text(text: str) -> str:
    """Text without logins and query strings of URLs, cut after the first secret key."""
    text = _URL_LOGIN.sub(f"{HIDDEN}@", text)  # first, as a password may look like a secret key
    cut = _key_end(text)
    kept = text if cut is None else text[:cut] + HIDDEN
    return _QUERY.sub(lambda match: match[1] + HIDDEN, _LOGIN.sub(f"{HIDDEN}@", kept))


def shown_value(value: object) -> str:
    """The `repr` of a value for messages, with secrets redacted at any depth."""
    return repr(_without_secrets(value))


def _without_secrets(value: object) -> object:
    if isinstance(value, str):
        return shown_text(value)
    if isinstance(value, Mapping):
        return {
            shown_key(str(key)): HIDDEN if resembles_secret(str(key)) else _without_secrets(each)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(each) for each in value]
    return value


def first_secret(line: str) -> int | None:
    """The column of a line from which it may contain a secret; None if all of it can be shown."""
    starts = [match.start() for match in (_LOGIN.search(line),) if match is not None]
    starts += [match.end(1) for match in (_QUERY.search(line),) if match is not None]
    cut = _key_end(line)
    return min([*starts, cut] if cut is not None else starts, default=None)


def _key_end(text: str) -> int | None:
    """Where the first secret key ends that a value may follow."""
    for match in _KEY_IN_TEXT.finditer(text):
        if resembles_secret(match[1]):
            return match.end()
    return None


def holds_secret(text: str) -> bool:
    """Whether a text that is not YAML may contain a secret key."""
    return any(resembles_secret(match[0]) for match in _WORD.finditer(_COMMENT.sub("", text)))


def without(text: str, secrets: Collection[str]) -> str:
    """Redact all secrets of the file from a message, for instance one that a plugin's validator repeats.

    :param secrets: the values that the parser found under secret keys.
    """
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        # Short secrets occur inside ordinary words, so only whole words count.
        pattern = re.escape(secret) if len(secret) > _SHORT_SECRET else rf"(?<!\w){re.escape(secret)}(?!\w)"
        text = re.sub(pattern, HIDDEN, text)
    return text
