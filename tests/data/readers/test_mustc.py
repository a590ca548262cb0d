"""MuST-C's layout on a small folder, with everything that may be wrong with it."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Target
from zoo.data.chain_of_thought import SpeechChainOfThoughtConfig
from zoo.data.readers.mustc import MustC

YAML = """\
- {duration: 1.5, offset: 0.25, rW: 4, uW: 0, speaker_id: spk.1, wav: ted_1.wav}
- {duration: 1.000000, offset: 4.0, rW: 2, uW: 0, speaker_id: spk.2, wav: ted_2.wav}
- {duration: 1.2, offset: 3.9, rW: 3, uW: 0, speaker_id: spk.1, wav: ted_1.wav}
- {duration: 2, offset: 1.75, rW: 3, uW: 0, speaker_id: spk.1, wav: ted_1.wav}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "en-de" / "data" / "tst-COMMON"
    (folder / "txt").mkdir(parents=True)
    (folder / "wav").mkdir()
    (folder / "txt" / "tst-COMMON.yaml").write_text(YAML)
    (folder / "txt" / "tst-COMMON.en").write_text("One  two.\nOther talk.\nLast.\n\u2028Three.\n")
    (folder / "txt" / "tst-COMMON.de").write_text("Eins zwei.\nAndere Rede.\nLetzter.\nDrei.\n")
    for name in ("ted_1", "ted_2"):
        audio.write(folder / "wav" / f"{name}.wav", torch.zeros(5 * 16_000))
    return tmp_path


def read(root: Path, split: str = "tst-COMMON", target: str = "de") -> list:
    return MustC(root=str(root), source_language="en", target_language=target).talks(split)


def test_talks_and_segments(root: Path) -> None:
    one, two = read(root)
    assert (one.name, one.duration, one.voice, one.source_language) == ("ted_1", 5.0, "spk.1", "en")
    assert one.audio == root / "en-de" / "data" / "tst-COMMON" / "wav" / "ted_1.wav"
    assert one.segments[:2] == (
        Segment(0.25, 1.5, "One two.", targets={"de": Target("Eins zwei.")}),
        Segment(1.75, 2.0, "Three.", targets={"de": Target("Drei.")}),
    )
    assert one.segments[2].end == 5.0  # 0.1 s of overhang are cut
    assert [segment.source for segment in two.segments] == ["Other talk."]


def test_a_talk_may_end_with_its_last_segment(root: Path) -> None:
    corpus = MustC(root=str(root), source_language="en", target_language="de", whole=False)
    one, two = corpus.talks("tst-COMMON")
    assert (one.offset, one.duration) == (0.25, 4.75)
    assert [(segment.offset, segment.end) for segment in one.segments] == [
        (0.0, 1.5),
        (1.5, 3.5),
        (3.65, 4.75),
    ]
    assert (two.offset, two.duration, two.segments[0].offset) == (4.0, 1.0, 0.0)


def spanish(root: Path, *changes: tuple[str, str]) -> MustC:
    """A corpus with ``en-es``, a copy of ``en-de`` with changes of its YAML or its transcripts."""
    folder = shutil.copytree(root / "en-de", root / "en-es") / "data" / "tst-COMMON" / "txt"
    (folder / "tst-COMMON.de").rename(folder / "tst-COMMON.es")
    (folder / "tst-COMMON.es").write_text("Uno dos.\nOtra.\nÚltimo.\nTres.\n")
    for old, new in changes:
        for name in ("yaml", "en", "es"):
            path = folder / f"tst-COMMON.{name}"
            path.write_text(path.read_text().replace(old, new))
    return MustC(root=str(root), source_language="en", target_language="de", further_targets=["es"])


def test_a_segment_can_have_several_targets(root: Path) -> None:
    talks = spanish(root).talks("tst-COMMON")
    assert [
        [(one.source, one.targets["de"].text, one.targets["es"].text) for one in talk.segments]
        for talk in talks
    ] == [
        [
            ("One two.", "Eins zwei.", "Uno dos."),
            ("Three.", "Drei.", "Tres."),
            ("Last.", "Letzter.", "Último."),
        ],
        [("Other talk.", "Andere Rede.", "Otra.")],
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ([("offset: 1.75", "offset: 1.85")], "yaml.*4.*: the segment at 1.85 s differs in times"),
        ([("Three.", "Four.")], "yaml.*4.*: the segment at 1.75 s differs in times or transcript"),
        ([("ted_2", "ted_1"), ("offset: 4.0", "offset: 5.5")], "yaml.*: the recording 'ted_2' is"),
        (
            [(f"{YAML.splitlines()[2]}\n", ""), ("Last.\n", ""), ("Último.\n", "")],
            r"en-de.*yaml.*: another folder of data\.further_targets lacks this segment\.",
        ),
    ],
)
def test_other_segments_of_another_target_are_refused(
    root: Path, changes: list[tuple[str, str]], sentence: str
) -> None:
    with pytest.raises(ZooError, match=sentence):
        spanish(root, *changes).talks("tst-COMMON")


def test_its_segments_train_non_streaming_chains_of_thought(root: Path) -> None:
    config = SpeechChainOfThoughtConfig(mixture={"non_streaming": 1.0})
    sampler = config.sampler(read(root), target=language("de"), chunk_seconds=0.64)
    random = np.random.default_rng(0)
    examples = sampler.examples(0, sampler.plan(0, random).positions, random)
    assert {(example.transcript, example.translation) for example in examples} == {
        ("One two.", "Eins zwei."),
        ("Three.", "Drei."),
        ("Last.", "Letzter."),
        ("Other talk.", "Andere Rede."),
    }
    for example in examples:
        assert len(example.samples()) == round(example.seconds * 16_000)


def test_folder_of_the_pair_is_accepted(root: Path) -> None:
    assert read(root / "en-de") == read(root)


def test_missing_folders_are_named(root: Path) -> None:
    with pytest.raises(ZooError, match="no split 'dev'; it has: tst-COMMON"):
        read(root, split="dev")
    with pytest.raises(ZooError, match="no folder en-es/data"):
        read(root, target="es")
    with pytest.raises(ZooError, match="no folder en-de/data"):
        read(root / "nowhere")
