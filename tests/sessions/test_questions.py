"""Each question is asked once, and its answer resumes all that wait for it, in order."""

from sluicegate.sessions.questions import Questions


def test_equal_questions_are_asked_once_and_answered_to_all() -> None:
    questions: Questions[str] = Questions()
    assert questions.ask(("groups",), "first")
    assert not questions.ask(("groups",), "second")
    assert questions.ask(("nodes",), "other")

    assert questions.new == [("groups",), ("nodes",)]
    assert questions.answered(("groups",)) == ["first", "second"]
    assert questions.answered(("groups",)) == []
    assert questions.answered(("nodes",)) == ["other"]


def test_a_question_is_new_again_once_it_was_answered() -> None:
    questions: Questions[str] = Questions()
    questions.ask("groups", "first")
    questions.new.clear()
    questions.answered("groups")
    assert questions.ask("groups", "second")
    assert questions.new == ["groups"]
