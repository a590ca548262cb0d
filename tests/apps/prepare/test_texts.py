"""Names of speakers at the start of texts."""

import pytest

from zoo.apps.prepare.texts import find_speaker, without_speakers
from zoo.base.talks import Segment, Talk, Target


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("CA: Thanks.", "CA: Danke.", ("Thanks.", "Danke.")),
        ("- Chris Anderson: Hi.", "克里斯：嗨。", ("Hi.", "嗨。")),
        ("Video: Don Blankenship: Let me.", "Video: Don: Lass mich.", ("Let me.", "Lass mich.")),
        ("(Laughter) CA: Go.", "（笑声）克里斯：去。", ("(Laughter) Go.", "（笑声）去。")),
        ("Let me: go.", "Lass mich: los.", ("Let me: go.", "Lass mich: los.")),
    ],
)
def test_all_names_of_speakers_are_removed(
    source: str, translation: str, expected: tuple[str, str]
) -> None:
    segment = Segment(0.0, 1.0, source, targets={"de": Target(translation)})
    talk = Talk("talk", None, 1.0, "en", (segment,))
    [found] = without_speakers(talk).segments
    assert (found.source, found.targets["de"].text) == expected
    assert find_speaker(found.source) is None
