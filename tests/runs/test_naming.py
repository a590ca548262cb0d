"""Names and tags of W&B runs."""

from zoo.runs.naming import NAME_LENGTH, TAG_LENGTH, TAGS, run_name, run_tags


def test_a_run_is_named_by_its_systems_and_what_changes_their_results() -> None:
    given = ["evaluation.talks=2", "logger.mode=offline", "trainer.devices=2", "+compare={a:[]}"]
    assert run_name(["infinisst"], given) == "infinisst evaluation.talks=2"
    assert run_name(list("abcde"), ["~x"]) == "a, b, c and 2 more ~x"
    assert run_tags(["infinisst"], given) == ["infinisst", "evaluation.talks=2"]


def test_names_and_tags_have_a_limit() -> None:
    long = f"key={'x' * 300}"
    assert len(run_name(["a\nb"], [long])) == NAME_LENGTH
    tags = run_tags([f"system{number}" for number in range(300)], [long])
    assert len(tags) == TAGS
    assert run_tags([], [long]) == [long[: TAG_LENGTH - 1] + "…"]
