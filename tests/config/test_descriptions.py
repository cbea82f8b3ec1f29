"""Descriptions of fields come from the text below them, or from their declaration."""

from pydantic import Field, create_model

from sluicegate.config.descriptions import descriptions
from sluicegate.config.models import PolicyModel


class Described(PolicyModel):
    """Fields in both styles."""

    below: int | None = None
    """Text over
    two lines."""
    declared: int | None = Field(default=None, description="In the declaration.")
    """Not this one."""
    silent: int | None = None


def test_the_text_below_a_field_describes_it_unless_its_declaration_does() -> None:
    assert descriptions(Described)["below"] == "Text over two lines."
    assert descriptions(Described)["declared"] == "In the declaration."
    assert "silent" not in descriptions(Described)


def test_a_model_that_is_made_at_run_time_has_the_texts_of_its_bases_and_of_those_that_describe_it() -> None:
    derived = create_model("Derived", __base__=Described)
    assert descriptions(derived)["below"] == "Text over two lines."
    beside = create_model("Beside", __base__=PolicyModel, below=(int | None, None))
    beside.described_by = (Described,)
    assert descriptions(beside)["below"] == "Text over two lines."
