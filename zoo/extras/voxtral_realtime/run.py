"""One run of the network along a live stream: it chooses one token per frame of audio.

Encoder and decoder are causal and attend to a window of the past. Their caches hold that window, so
new audio is computed once, however long the stream is.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from zoo.backbones.encoders.audio.spectrogram import HALF
from zoo.base.types import Frames, Samples
from zoo.extras.voxtral_realtime.features import FEATURES, FRAME, LOOK_AHEAD, LogMel, num_frames
from zoo.streaming.stages import stage

BLOCK: Frames = 128  # encoded at once at most, so that a long recording needs no large masks
LONGEST_WORD: Frames = 10  # silence after the end, for the tokens of a last word (released code)


@dataclass(slots=True, eq=False)
class Run:
    """State of a run.

    Token k is chosen after frame k + ``delay``, for speech that ends about in frame k.

    Attributes:
        origin: Stream position of the first sample.
        end: Stream position after the last sample that was received.
        prompt: Ids before the first token.
        delay: Frames from speech to its text.
        samples: Received samples of windows that are not computed yet.
        tokens: Ids of the chosen tokens, with those of frames without text.
        padded: Whether silence follows the last sample, so that the run cannot go on.
        frames: (n, width) encoded frames that the decoder has not received yet.
        fed: Number of ids that the decoder has received.
        encoder_cache: Keys and values of the encoder. None before the first frame.
        convolution_cache: Last inputs of the encoder's convolutions. None before the first frame.
        decoder_cache: Keys and values of the decoder. None before the first token.
    """

    origin: Samples
    end: Samples
    prompt: list[int]
    delay: Frames
    samples: Tensor
    tokens: list[int]
    padded: bool = False
    frames: Tensor | None = None
    fed: int = 0
    encoder_cache: Any = None
    convolution_cache: Any = None
    decoder_cache: Any = None

    def audio_end(self, token: int) -> Samples:
        """Return the stream position of the last sample on which a token depends."""
        return self.origin + (token + self.delay + 1) * FRAME + LOOK_AHEAD

    def num_until(self, end: Samples) -> int:
        """Return how many tokens depend only on audio before a stream position."""
        tokens = (end - LOOK_AHEAD - self.origin) // FRAME - self.delay
        return min(max(tokens, 0), len(self.tokens))


@dataclass(frozen=True, slots=True)
class Streamer:
    """Runs the network of Transformers.

    Attributes:
        network: Voxtral-Realtime of Transformers.
        features: Computes its input.
        begin: Id that begins a prompt.
        padding: Id of a frame without text.
        end: Ids that are never chosen, because a stream ends with its audio.
        left: Frames of silence before a stream.
    """

    network: Any
    features: LogMel
    begin: int
    padding: int
    never: list[int]
    left: Frames

    def start(self, origin: Samples, delay: Frames, tokens: list[int]) -> Run:
        """Begin a run.

        Args:
            origin: Stream position of its first sample.
            delay: Frames from speech to its text.
            tokens: Ids of the first tokens, if they are known.
        """
        return Run(
            origin=origin,
            end=origin,
            prompt=[self.begin] + [self.padding] * (self.left + delay),
            delay=delay,
            samples=torch.zeros(HALF + self.left * FRAME),
            tokens=list(tokens),
        )

    def receive(self, run: Run, samples: Tensor) -> None:
        """Choose the tokens of all frames that new samples (n,) complete."""
        run.end += samples.numel()
        self._advance(run, samples)

    def pad(self, run: Run) -> None:
        """Choose the last tokens of a run, with the silence of the released code.

        The incomplete frame is completed, and as many frames follow as the delay and a long word
        take. The released code adds one more frame, from which no token is chosen.
        """
        run.padded = True
        completing = -(run.end - run.origin) % FRAME
        silence = (run.delay + LONGEST_WORD) * FRAME
        self._advance(run, torch.zeros(completing + silence + LOOK_AHEAD))

    def _advance(self, run: Run, samples: Tensor) -> None:
        """Append samples, encode the frames that are complete, and choose their tokens."""
        run.samples = torch.cat([run.samples, samples.cpu().float()])
        while count := min(num_frames(run.samples.numel()), BLOCK):
            features = self.features.compute(run.samples[: count * FRAME + HALF + LOOK_AHEAD])
            run.samples = run.samples[count * FRAME :].clone()
            encoded = self._encode(run, features[: count * FEATURES])
            run.frames = encoded if run.frames is None else torch.cat([run.frames, encoded])
            self._choose(run)

    @stage("encoder")
    def _encode(self, run: Run, features: Tensor) -> Tensor:
        """Encode features (8 n, bins) after those before: (n, width)."""
        inputs = features.T[None].to(self.network.device, self.network.dtype)
        outputs = self.network.model.get_audio_features(
            input_features=inputs,
            past_key_values=run.encoder_cache,
            padding_cache=run.convolution_cache,
            use_cache=True,
        )
        run.encoder_cache = outputs.past_key_values
        run.convolution_cache = outputs.padding_cache
        encoded: Tensor = outputs.pooler_output[0]
        return encoded

    def _choose(self, run: Run) -> None:
        """Choose tokens until the decoder has received all encoded frames.

        The first step receives the prompt with all known tokens.
        """
        assert run.frames is not None
        while True:
            ids = [*run.prompt, *run.tokens][run.fed :] if run.fed == 0 else run.tokens[-1:]
            if len(ids) > len(run.frames):
                return
            with stage("decode" if run.fed else "prefill"):
                run.tokens.append(self._next(run, ids, run.frames[: len(ids)]))
            run.frames = run.frames[len(ids) :]
            run.fed += len(ids)

    def _next(self, run: Run, ids: list[int], frames: Tensor) -> int:
        """Give the decoder ids with their frames (n, width), and choose the next id."""
        model = self.network.model
        embeddings = model.get_input_embeddings()(torch.tensor([ids], device=frames.device))
        delay = torch.full((1,), run.delay, device=frames.device, dtype=frames.dtype)
        outputs = model.language_model(
            inputs_embeds=embeddings + frames,
            past_key_values=run.decoder_cache,
            use_cache=True,
            t_cond=model.time_embedding(delay)[None],
        )
        run.decoder_cache = outputs.past_key_values
        logits: Tensor = self.network.lm_head(outputs.last_hidden_state[0, -1])
        logits[self.never] = -torch.inf
        return int(logits.argmax())
