"""Lists of names in policies."""

import pytest
from pydantic import TypeAdapter, ValidationError

from sluicegate.config.name_list import NameList, name_matcher, split_names

read = TypeAdapter(NameList).validate_python


@pytest.mark.parametrize("written", [["a", "b-*", 17], "a, b-*, 17", " a ,b-*,,17 ", ("a", "b-*", "17")])
def test_a_list_is_kept_as_one_text(written: object) -> None:
    assert read(written) == "a, b-*, 17"
    assert split_names(read(written)) == ("a", "b-*", "17")


@pytest.mark.parametrize("written", [[], "", " , "])
def test_no_names(written: object) -> None:
    assert split_names(read(written)) == ()


@pytest.mark.parametrize(
    "written", [17, True, None, {"a": 1}, ["a,b"], [""], [None], [True], [["a"]], ["a"] * 101, ["a" * 257]]
)
def test_what_is_no_list_of_names_is_refused(written: object) -> None:
    with pytest.raises(ValidationError):
        read(written)


def test_a_matcher_stays_right_beyond_what_it_remembers() -> None:
    is_named = name_matcher(["a*", "b"])

    for number in range(3_000):
        assert is_named(f"a{number}")
        assert not is_named(f"b{number}")
    assert is_named("b")
