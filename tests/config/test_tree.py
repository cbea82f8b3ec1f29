"""YAML with places, and within bounds."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.config.tree import MAX_DEPTH, MAX_NODES, Node, parse, resolve_scalar


def read(text: str) -> Node:
    errors: list[Finding] = []
    node = parse(text, "gateway.yaml", errors)
    assert errors == []
    return node


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10),
        ("1:30", "1:30"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("FALSE", False),
        ("tRuE", "tRuE"),
        ("~", None),
        ("", None),
        ("0x1F", 31),
        ("0o17", 15),
        ("-5", -5),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("1_000", "1_000"),
        ("2026-11-21", "2026-11-21"),
        ("9" * 41, 1e41),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    found = resolve_scalar(text)
    assert found == value
    assert type(found) is type(value)


def test_quoted_scalars_are_text() -> None:
    assert read("a: '5'\nb: \"true\"\nc: |\n  5\n").plain() == {"a": "5", "b": "true", "c": "5\n"}


def test_values_and_keys_know_their_places() -> None:
    root = read("a:\n  - é: 1\n    bb: two\n")
    entry = root.child("a")
    assert entry is not None
    inner = entry.child(0)
    assert inner is not None
    key, value = inner.key("bb"), inner.child("bb")
    assert key is not None
    assert value is not None
    assert (key.line, key.column, key.length) == (2, 4, 2)
    assert (value.location.line, value.location.column, value.location.length) == (2, 8, 3)


def test_a_duplicate_key_is_an_error_and_parsing_continues() -> None:
    errors: list[Finding] = []
    root = parse("a: 1\na: 2\nb: 3\nb: 4\n", "gateway.yaml", errors)
    assert [(e.line, e.column, e.message) for e in errors] == [
        (2, 1, "duplicate key 'a'"),
        (4, 1, "duplicate key 'b'"),
    ]
    assert "first used in line 1" in errors[0].remedy
    assert root.plain() == {"a": 1, "b": 3}


def test_aliases_share_what_was_anchored() -> None:
    assert read("a: &x {p: 1}\nb: *x\n").plain() == {"a": {"p": 1}, "b": {"p": 1}}


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "the file is empty", 1),
        ("# nothing\n", "the file is empty", 1),
        ("a: b: c", "not YAML: mapping values are not allowed", 1),
        ("a: 1\n b: 2", "not YAML: mapping values are not allowed", 2),
        ("a: [1", "not YAML: while parsing a flow sequence", 2),
        ("a: \x00", "not YAML: unacceptable character", 1),
        ("a: \ud800", "not YAML: ", 1),
        ("a: 1\n---\nb: 1\n", "a second document begins here", 2),
        ("a: *x", "alias 'x' has no anchor before it", 1),
        ("a: &x [*x]", "alias 'x' has no anchor before it", 1),
        (
            "a: !!python/object:os.system x",
            "tag 'tag:yaml.org,2002:python/object:os.system' is not supported",
            1,
        ),
        ("? [a]\n: 1", "a key must be plain text", 1),
        ("? *x\n: 1", "a key must be plain text", 1),
        ("[" * 500_000, f"nested more than {MAX_DEPTH} deep", 1),
        ("- " * 500_000, f"nested more than {MAX_DEPTH} deep", 1),
        (
            "- &x [" + "1," * 999 + "]\n" + "- *x\n" * (MAX_NODES // 1000),
            f"more than {MAX_NODES} values",
            1000,
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, message: str, line: int) -> None:
    with pytest.raises(ConfigErrors) as refused:
        parse(text, "gateway.yaml", [])
    [error] = refused.value.errors
    assert error.message.startswith(message)
    assert error.line == line


def test_a_traceback_names_each_error_with_its_place_and_remedy() -> None:
    with pytest.raises(ConfigErrors) as refused:
        parse("a: 1\n\tb: 2\n", "gateway.yaml", [])
    [error] = refused.value.errors
    assert str(refused.value) == f"1 configuration error:\n{error.render()}"
    assert "gateway.yaml:2" in str(refused.value)
    assert error.remedy in str(refused.value)


def test_an_alias_bomb_is_refused_before_it_expands() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    with pytest.raises(ConfigErrors, match="1 configuration error") as refused:
        parse("\n".join(lines), "bomb.yaml", [])
    assert refused.value.errors[0].remedy == "use fewer aliases"


@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"#%@,? \n\t\u0085\u2028é\ud800\x000<~"), max_size=60))
@example("a: &a\n- *a")
@example("%YAML 1.1\n---\n")
@example("&a a: *a")
def test_hostile_text_is_read_or_refused(text: str) -> None:
    errors: list[Finding] = []
    try:
        parse(text, "hostile.yaml", errors)
    except ConfigErrors as refused:
        errors = refused.errors
    assert all(error.line >= 1 and error.render().startswith("error[config]: ") for error in errors)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text("aé:#-'\"\\\n\t ", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(plain)
def test_json_is_read_as_it_is(value: object) -> None:
    assert read(json.dumps({"v": value}, ensure_ascii=False)).plain() == {"v": value}
