"""What may be shown of a configuration: never the value of a key that is a secret, or is like one.

A mistyped key (`pasword`) still stands before a password, so likeness decides, not equality. Three things
keep a value from being shown, each on its own: the key that the parser found before it, the look of the line
(for text that is no YAML), and the value itself, wherever else it turns up.
"""

import re
from collections.abc import Collection, Mapping
from difflib import SequenceMatcher
from functools import lru_cache

HIDDEN = "***"
"""Stands in place of what is not shown."""

_SECRETS = ("password", "passphrase", "passcode", "secret", "token", "credential", "authorization")
_PARTS = ("pass", "pwd", "secret", "token", "cred", "jaas", "bearer", "apikey", "accesskey", "privatekey")
"""What gives a key away wherever it stands in it."""
_SHORT = frozenset({"auth", "authorization", "cookie", "jwt", "otp", "pin", "psk", "sas", "sig", "tkn"})
"""Words of a key that are too short for likeness."""
_ALIKE = 0.7
"""Likeness of two words, 0 to 1, from which one counts as the other misspelled: `tokn`, `secert`."""
_LONGEST_WORD = 14
"""Letters of a word that can still be a key; in a longer one a value may stick to the key."""
_LONGEST_KEY = 100
_SHORT_SECRET = 3
"""Characters of a secret up to which messages are searched for it as a whole word alone."""

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_NAME = re.compile(r"[A-Za-z_.-]+")
_KEY_IN_TEXT = re.compile(r"""([\w.-]+)(?:\\?["'])?(?:\s*[:=]\s*|\s*(?=[^\s#,}\])"']))""")
"""A word that something follows as a value follows its key."""
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_WORD = re.compile(r"[\w.-]+")
_LOGIN = re.compile(r"(?<=//)[^\s\"']*@|[^\s\"'\[\]{},]+:[^\s\"'\[\]{},]*@(?=[^\s@]+:[0-9])")
"""User name and password of an address; a slash in it should be encoded, and often is not."""
_QUERY = re.compile(r"(?<=://)([^\s\"'?]*\?)[^\s\"']+")


@lru_cache(4096)
def resembles_secret(key: str) -> bool:
    """Whether a key is that of a secret, or may be one misspelled, whatever surrounds it: `sasl_pasword`."""
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
    # The bounds are quick to tell, and most words end here.
    if matcher.real_quick_ratio() < _ALIKE or matcher.quick_ratio() < _ALIKE:
        return 0.0
    return matcher.ratio()


def hides(path: Collection[str | int]) -> bool:
    """Whether what stands at a path is secret, as one of its keys resembles a secret."""
    return any(isinstance(step, str) and resembles_secret(step) for step in path)


def shown_key(key: str) -> str:
    """A key for messages: all of it, unless a secret may have stuck to it (`password:hunter2`)."""
    if not resembles_secret(key):
        return shown_text(key)
    is_name = _NAME.fullmatch(key) is not None
    return key if is_name and all(len(word) <= _LONGEST_WORD for word in re.split(r"[_.-]", key)) else HIDDEN


def shown_path(path: Collection[str | int]) -> str:
    """A path for messages, with dots; it ends with the first key that resembles a secret."""
    steps: list[str] = []
    for step in path:
        steps.append(shown_key(step) if isinstance(step, str) else str(step))
        if isinstance(step, str) and resembles_secret(step):
            break
    return ".".join(steps)


def shown_text(text: str) -> str:
    """Text without logins and queries of addresses, cut where a secret's key stands in it."""
    cut = _key_end(text)
    kept = text if cut is None else text[:cut] + HIDDEN
    return _QUERY.sub(lambda found: found[1] + HIDDEN, _LOGIN.sub(f"{HIDDEN}@", kept))


def shown_value(value: object) -> str:
    """A value of the file for messages, as Python writes it; values of secrets are left out at any depth."""
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
    """The column from which a line of a file must not be shown, by its look; None if all of it may be."""
    starts = [found.start() for found in (_LOGIN.search(line),) if found is not None]
    starts += [found.end(1) for found in (_QUERY.search(line),) if found is not None]
    cut = _key_end(line)
    return min([*starts, cut] if cut is not None else starts, default=None)


def _key_end(text: str) -> int | None:
    """Where the first key of a secret ends that a value may follow."""
    for found in _KEY_IN_TEXT.finditer(text):
        if resembles_secret(found[1]):
            return found.end()
    return None


def holds_secret(text: str) -> bool:
    """Whether a key of a secret may stand in a text that is no YAML, where no key can be told for certain."""
    return any(resembles_secret(found[0]) for found in _WORD.finditer(_COMMENT.sub("", text)))


def without(text: str, secrets: Collection[str]) -> str:
    """A message without any of the file's secrets, such as one that a plugin's validator repeats.

    :param secrets: what the parser found behind keys of secrets.
    """
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        # A short one is in every other word, so only whole words count.
        pattern = re.escape(secret) if len(secret) > _SHORT_SECRET else rf"(?<!\w){re.escape(secret)}(?!\w)"
        text = re.sub(pattern, HIDDEN, text)
    return text
