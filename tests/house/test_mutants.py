"""What `make mutants` goes by: files that exist, and lines of known survivors that are still there."""

import pytest
from tests.mutants.staging import staged
from tests.mutants.targets import ROOT, Target, equivalents, only, targets

TARGETS = targets()


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_a_target_has_files_and_tests(target: Target) -> None:
    assert target.files
    for path in [*target.tests, *(test.partition("::")[0] for test in target.without)]:
        assert (ROOT / path).exists(), path


def test_a_target_can_be_narrowed_to_files_by_name() -> None:
    narrowed = only(TARGETS["engine"], "bucket*")
    files = ("core/sluicegate/engine/bucket.py", "core/sluicegate/engine/buckets.py")
    assert (narrowed.name, narrowed.files) == ("engine-bucket-", files)
    assert only(TARGETS["engine"], "*") == TARGETS["engine"]


def test_a_file_stands_below_the_one_folder_of_packages_in_the_copy() -> None:
    assert staged("plugins/kafka/sluicegate_kafka/codec/frames.py") == "src/sluicegate_kafka/codec/frames.py"
    assert staged("core/sluicegate/engine/bucket.py") == "src/sluicegate/engine/bucket.py"


def test_equivalent_mutants_change_lines_that_are_still_there() -> None:
    for change, reason in equivalents().items():
        assert any(change.file in target.files for target in TARGETS.values()), change
        lines = {line.strip() for line in (ROOT / change.file).read_text().splitlines()}
        assert not [line for line in change.was.split(" / ") if line not in lines], change
        assert change.was != change.becomes, change
        assert reason, change
