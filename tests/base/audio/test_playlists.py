"""Texts that name other files, under the names of audio: no reader follows them."""

from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from tests.fixtures.films import RATE, clicks, write_film
from zoo.apps.translate.inputs import find_talks
from zoo.base.audio import files as audio
from zoo.base.audio.ffmpeg import decode, open_media
from zoo.base.errors import ZooError
from zoo.data.readers.folder import Folder

VICTIM = "victim.m4a"
LIST = "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n"
# {path}: absolute path of a recording. Names of FFmpeg and of players.
PLAYLISTS = {
    "HLS": LIST + "{path}\n#EXT-X-ENDLIST\n",
    "live HLS": LIST + "{path}\n",
    "HLS with a key": LIST + '#EXT-X-KEY:METHOD=AES-128,URI="{path}"\n{path}\n#EXT-X-ENDLIST\n',
    "HLS with data": LIST + "data:audio/mp4;base64,AAAA\n#EXT-X-ENDLIST\n",
    "concat": f"ffconcat version 1.0\nfile {VICTIM}\n",
    "concat of a path": "ffconcat version 1.0\noption safe 0\nfile '{path}'\n",
    "concat of a part": "ffconcat version 1.0\nfile 'subfile,,start,0,end,0,,:{path}'\n",
    "DASH": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
    'mediaPresentationDuration="PT4S" profiles="urn:mpeg:dash:profile:isoff-on-demand:2011">'
    '<Period><AdaptationSet mimeType="audio/mp4"><Representation id="a" bandwidth="64000">'
    "<BaseURL>{path}</BaseURL></Representation></AdaptationSet></Period></MPD>",
    "SDP": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
    "m=audio 5004 RTP/AVP 0\n",
    "M3U": "{path}\n",
    "PLS": "[playlist]\nFile1={path}\nNumberOfEntries=1\n",
    "XSPF": "<playlist><trackList><track><location>file://{path}</location></track></trackList>"
    "</playlist>",
    "ASX": '<asx version="3.0"><entry><ref href="file://{path}"/></entry></asx>',
    "SMIL": '<smil><body><audio src="{path}"/></body></smil>',
}
SUFFIXES = (".m4a", ".mp3", ".wav", ".ogg", ".mp4", ".mkv", ".m3u8")


@pytest.fixture
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIMULZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return write_film(tmp_path / VICTIM, [clicks()])


def readers(path: Path) -> list[Callable[[], object]]:
    corpus = Folder(root=str(path.parent), source_language="en", target_language="de")
    return [
        lambda: find_talks([str(path)], source_language="en"),
        lambda: corpus.talks("tst"),
        lambda: audio.duration(path),  # as for the talks of a manifest
        lambda: audio.load(path),
        lambda: audio.load_channels(path, [0]),
    ]


@pytest.mark.parametrize("name", PLAYLISTS)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_reader_follows_a_playlist(name: str, suffix: str, victim: Path, tmp_path: Path) -> None:
    path = tmp_path / "in" / f"talk{suffix}"
    path.parent.mkdir()
    path.write_text(PLAYLISTS[name].format(path=victim))
    for read in readers(path):
        with pytest.raises(ZooError) as raised:
            read()
        assert "\n" not in str(raised.value)
        assert victim.stem not in str(raised.value)
    assert not list(tmp_path.glob("cache/**/*.wav"))


def test_ffmpeg_follows_what_is_refused(victim: Path, tmp_path: Path) -> None:
    """Without the list of formats, the libraries read the other file."""
    path = tmp_path / "talk.m4a"
    path.write_text(PLAYLISTS["concat"])
    with av.open(str(path)) as container:
        assert container.format.name == "concat"
        assert sum(frame.samples for frame in container.decode(audio=0)) >= 4 * RATE
    with pytest.raises(ZooError, match=r"talk\.m4a is damaged or not audio \(another format\)"):
        list(decode(path))


def test_a_film_whose_sound_is_in_another_file(victim: Path, tmp_path: Path) -> None:
    """A MOV whose reference names a file is read from its own bytes."""
    path = write_film(tmp_path / "talk.mov", [clicks()])
    content = path.read_bytes()
    place = content.index(b"url \0\0\0\1")
    named = content[: place + 7] + b"\0" + content[place + 8 :]
    path.write_bytes(named)
    assert np.array_equal(
        audio.load(path), audio.load(write_film(victim.with_suffix(".mov"), [clicks()]))
    )
    with open_media(path) as container:
        assert container.format.name.startswith("mov")
