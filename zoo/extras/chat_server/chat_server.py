"""A speech LLM of any size behind an OpenAI-compatible server, for policies that need text alone.

vLLM, SGLang and ``transformers serve`` batch the requests of many streams. The server knows no
streams: a request has all kept audio, and its answer begins with the written translation.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor

from zoo.backbones.base import Backbone, is_empty
from zoo.backbones.text.vocabulary import CLOSING
from zoo.base.errors import ZooError, check_choice, check_numbers, shorten, shorten_list
from zoo.base.languages import Language, language
from zoo.base.machine.secrets import check_variable, read_key, split_address
from zoo.base.types import (
    SAMPLE_RATE,
    Capability,
    Cut,
    Hypothesis,
    Request,
    Samples,
    Seconds,
    Task,
)
from zoo.extras.chat_server import characters
from zoo.extras.chat_server.characters import Words, clean_text, complete_words
from zoo.extras.chat_server.client import Client, Completion, RefusedError
from zoo.extras.chat_server.prompt import (
    AudioPart,
    ChatServerPrompt,
    Message,
    PrefixPlace,
    Template,
)
from zoo.streaming.session import Session
from zoo.streaming.stages import stage

MOST_TOKENS, MOST_CONNECTIONS, MOST_RETRIES = 1_000_000, 1000, 100
DAY: Seconds = 86_400.0
KEY_SETTING = "backbone.api_key_variable"
SCHEMES = ("http", "https")
LISTED = 20  # names of models in a message
PROBE: Samples = SAMPLE_RATE  # silence that ``load`` has the server answer


@dataclass(slots=True)
class ChatServerState:
    """The last transcript of one stream.

    Attributes:
        span: Stream position of the first sample, and number of samples, of its audio.
        transcript: The transcript. None if there is none of the kept audio.
    """

    span: tuple[Samples, Samples] | None = None
    transcript: Hypothesis | None = None


class ChatServer(Backbone):
    """Requests transcripts and translations from a server by HTTP.

    A token is a character, for the server's tokenizer is not known. The server tokenizes the
    written translation anew in each request.

    Attributes:
        client: Sends the requests.
        served: Name of the model in requests.
    """

    exposes: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.TRANSCRIPT, Capability.PREFIX, Capability.AUDIO_TRIMMING, Capability.CONTEXT}
    )
    weights_key = "model"
    frame_samples: Samples = SAMPLE_RATE // 100

    client: Client
    served: str

    def __init__(
        self,
        *,
        url: str | None = None,
        model: str | None = None,
        api_key_variable: str | None = None,
        template: Template = Template(),  # noqa: B008 (frozen)
        direct: bool = False,
        prefix_place: PrefixPlace = "answer",
        audio_part: AudioPart = "input_audio",
        max_tokens: int = 256,
        longest_seconds: Seconds | None = None,
        timeout_seconds: Seconds = 120.0,
        retries: int = 3,
        connections: int = 32,
        words: Words = "jieba",
    ) -> None:
        """Configure the backbone; ``load`` sends the first request.

        Args:
            url: Address of the API, such as http://127.0.0.1:8000/v1.
            model: Name of a model of the server. None: its only model.
            api_key_variable: Environment variable that contains the key of the API. None: no key.
            template: Texts of the requests.
            direct: Whether the model translates without a chain of thought: there is no transcript.
            prefix_place: ``answer``: the server continues an answer that begins with transcript and
                written translation (``continue_final_message`` of vLLM and SGLang). ``prompt``:
                they are in the instruction, for servers that cannot continue an answer.
            audio_part: Form of audio in messages: ``input_audio`` (OpenAI) or ``audio_url`` (vLLM).
            max_tokens: Maximum number of the model's tokens per answer.
            longest_seconds: Longest audio that the model takes. None: any length.
            timeout_seconds: Longest time of a request, until the end of its answer.
            retries: Number of repetitions of a failed request.
            connections: Maximum number of streams whose requests are sent at the same time.
            words: Words of a language without spaces: those of jieba, or all characters.

        Raises:
            ZooError: If a choice or a number is invalid, the URL is no HTTP address or contains a
                password, or ``api_key_variable`` cannot be the name of a variable.
        """
        super().__init__()
        check_choice("backbone.prefix_place", prefix_place, get_args(PrefixPlace))
        check_choice("backbone.audio_part", audio_part, get_args(AudioPart))
        check_choice("backbone.words", words, get_args(Words))
        check_numbers("A chat server", least=1, most=MOST_TOKENS, max_tokens=max_tokens)
        check_numbers("A chat server", least=1, most=MOST_CONNECTIONS, connections=connections)
        check_numbers("A chat server", above=0, most=DAY, timeout_seconds=timeout_seconds)
        check_numbers("A chat server", above=0, most=DAY, longest_seconds=longest_seconds)
        check_numbers("A chat server", least=0, most=MOST_RETRIES, retries=retries)
        if url is not None:
            split_address(url, "backbone", schemes=SCHEMES, example="http://127.0.0.1:8000/v1")
        check_variable(api_key_variable, KEY_SETTING)
        self.url = url
        self.model = model
        self.api_key_variable = api_key_variable
        self.prompt = ChatServerPrompt(
            template=template, prefix_place=prefix_place, audio_part=audio_part, direct=direct
        )
        if direct:
            self.exposes = type(self).exposes - {Capability.TRANSCRIPT}  # type: ignore[misc]
        if longest_seconds is not None:
            self.longest_input = round(longest_seconds * SAMPLE_RATE)
        self.max_tokens = max_tokens
        self.timeout_seconds = timeout_seconds
        self.retries = retries
        self.connections = connections
        self.words = words

    def unnamed_weights(self) -> None:
        """Return None: the server has the weights, also those of its only model without a name."""
        return

    def load(self) -> None:
        """Have the server answer a second of silence.

        Raises:
            ZooError: If no URL or no key is given, or if the server cannot be reached, lacks the
                model, or refuses requests of this form.
        """
        if is_empty():
            return
        if self.url is None:
            raise ZooError(
                "backbone=chat_server needs backbone.url, such as http://127.0.0.1:8000/v1; no "
                "server is contacted that is not named."
            )
        self.client = Client(
            self.url,
            key=read_key(self.api_key_variable, KEY_SETTING),
            timeout=self.timeout_seconds,
            retries=self.retries,
            connections=self.connections,
        )
        names = self.client.models()
        self.served = self._chosen(names)
        messages = self.prompt.translation(
            torch.zeros(PROBE), language("en"), transcript="", written="a"
        )
        try:
            self._request(messages, lambda text: False, max_tokens=1)
        except RefusedError as error:
            if names and self.served not in names:
                raise ZooError(
                    f"The server {self.url} has no model {self.served!r}; choose one of: "
                    f"{self._shown(names)}."
                ) from error
            raise ZooError(
                f"{error} A server that cannot continue an answer needs "
                "backbone.prefix_place=prompt; one that takes audio as URLs, "
                "backbone.audio_part=audio_url."
            ) from error

    def _chosen(self, names: Sequence[str]) -> str:
        """Return the name of the model, given those that the server lists."""
        if self.model is not None:
            return self.model
        if len(names) != 1:
            listed = f"; choose one of: {self._shown(names)}" if names else ""
            raise ZooError(
                f"The server {self.url} lists {len(names)} models, so backbone.model must name "
                f"one{listed}."
            )
        return names[0]

    def _shown(self, names: Sequence[str]) -> str:
        """Return the names of models for a message, without the key."""
        return self.client.mask_secrets(shorten_list(map(shorten, names), LISTED))

    def open(self, session: Session) -> ChatServerState:
        """Create the empty state of a stream."""
        return ChatServerState()

    def forget(self, session: Session, cut: Cut) -> None:
        """Drop the transcript of forgotten audio."""
        if cut.frames:
            session.backbone_state = ChatServerState()

    def change_context(self, session: Session) -> None:
        """Drop the transcript."""
        session.backbone_state = ChatServerState()

    def text(self, token_ids: list[int]) -> str:
        """Return the characters of ``token_ids``."""
        return characters.text_of(token_ids)

    @stage("decode")
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Send the requests of all streams at the same time.

        A translation request without ``transcript_ids`` uses the transcript that the model
        generates first, unless the answers are direct.

        Args:
            sessions: The streams of the batch.
            requests: One request per stream.
            needs: Unused: a server returns text alone.

        Returns:
            One hypothesis per request: a transcript or a translation.

        Raises:
            ZooError: If a request fails.
        """
        pool = ThreadPoolExecutor(min(len(sessions), self.connections))
        try:
            return list(pool.map(self._answer, sessions, requests))
        except BaseException:
            self.client.ended.set()  # Ctrl-C and the first failure wait for no other stream
            raise
        finally:
            pool.shutdown(cancel_futures=True)
            self.client.ended.clear()

    def _answer(self, session: Session, request: Request) -> Hypothesis:
        """Transcribe if the request needs it, then translate."""
        samples = session.visible_audio(request.audio_end)
        if request.task is Task.TRANSCRIPTION:
            return self._transcript(session, samples)
        if self.prompt.direct:
            return self._translate(session, samples, "", request.max_words)
        transcript_ids = request.transcript_ids
        if transcript_ids is None:
            transcript_ids = self._transcript(session, samples).token_ids
        transcript = self.text(transcript_ids.tolist())
        return self._translate(session, samples, transcript, request.max_words)

    def _transcript(self, session: Session, samples: Tensor) -> Hypothesis:
        """Return the transcript of the audio (n,), which is requested once."""
        state: ChatServerState = session.backbone_state
        span = session.audio_start, len(samples)
        if state.transcript is None or state.span != span:
            separator = self.prompt.template.separator
            completion = self._request(
                self.prompt.transcription(samples, session.target_language, session.context),
                lambda text: text.endswith(separator),
            )
            text = clean_text(completion.text.removesuffix(separator)).strip()
            state.span = span
            state.transcript = self._hypothesis(
                "", text, completion, session.source_language, transcript=text
            )
        return state.transcript

    def _translate(
        self, session: Session, samples: Tensor, transcript: str, max_words: int | None
    ) -> Hypothesis:
        """Continue the written translation.

        Args:
            session: The stream.
            samples: Audio (n,) to translate.
            transcript: Its transcript; empty if there is none.
            max_words: Number of complete new words after which the answer is cut, or None.
        """
        prefix = self.text(session.prefix_ids.tolist())
        target = session.target_language

        def stop(text: str) -> bool:
            if max_words is None:
                return False
            new = self._continuation(prefix, text, target)
            return complete_words(new, target, self.words) >= max_words

        messages = self.prompt.translation(
            samples,
            target,
            transcript=transcript,
            written=prefix.strip(),
            context=session.context,
        )
        completion = self._request(messages, stop)
        new = self._continuation(prefix, completion.text, target)
        if completion.reason != "cut":
            new = new.rstrip()
        return self._hypothesis(prefix, new, completion, target)

    def _continuation(self, prefix: str, text: str, target: Language) -> str:
        """Return the text of an answer as it continues the written translation.

        An answer to a quoted translation may lack the space before its first word.
        """
        new = clean_text(text)
        if not prefix:
            return new.lstrip()
        if self.prompt.prefix_place == "answer" or target.unit == "char":
            return new
        return f" {new}" if new and new[0] not in f" {CLOSING}" else new

    def _request(
        self, messages: list[Message], stop: Callable[[str], bool], max_tokens: int | None = None
    ) -> Completion:
        """Request one greedy answer; an answer that has begun is continued."""
        body: dict[str, Any] = {
            "model": self.served,
            "messages": messages,
            "temperature": 0,
            "max_tokens": max_tokens or self.max_tokens,
        }
        if messages[-1]["role"] == "assistant":
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        return self.client.complete(body, stop)

    def _hypothesis(
        self,
        prefix: str,
        new: str,
        completion: Completion,
        language: Language,
        transcript: str | None = None,
    ) -> Hypothesis:
        """Return the hypothesis of new text after a prefix."""
        text = prefix + new
        return Hypothesis(
            token_ids=characters.token_ids(new),
            word_starts=characters.word_starts(text, language, self.words),
            prefix_length=len(prefix),
            finished=transcript is not None or completion.reason != "cut",
            truncated=completion.reason == "length",
            sentence_ends=characters.sentence_ends(text),
            transcript=transcript,
        )
