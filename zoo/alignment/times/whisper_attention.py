"""The attention of a Whisper to the audio while a text is forced, and the times that it gives.

Some attention heads of the decoder follow the audio; the generation_config.json of OpenAI's models
lists them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from zoo.alignment.times.monotonic import first_frames
from zoo.alignment.times.tokens import Tokens
from zoo.backbones.ctc.best_path import features
from zoo.backbones.pretrained.loading import alignment_heads, control_id
from zoo.base.errors import ZooError
from zoo.base.talks import Word
from zoo.base.types import SAMPLE_RATE, Samples

FRAME: Samples = 320  # 20 ms, of the encoder
FLOOR = 1e-3  # attention below it counts as this much, so that no single frame decides


@dataclass(frozen=True, slots=True)
class WhisperAttention:
    """Runs a Whisper over waves with their texts.

    Attributes:
        network: the Whisper, whose attention is computed eagerly: no other returns its weights.
        extractor: its feature extractor.
        heads: pairs of layer and head that follow the audio.
        opening: ids before a text, such as those of the language and the task.
    """

    network: Any
    extractor: Any
    heads: Sequence[tuple[int, int]]
    opening: Sequence[int]

    @torch.inference_mode()
    def force(
        self, waves: Sequence[Tensor], texts: Sequence[Sequence[int]]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Run the network over waves with their texts.

        Args:
            waves: (samples,) audio of each text.
            texts: token ids of each text.

        Returns:
            For each text, the attention (tokens + 1, encoder frames) of its tokens and of the end
            of the text, and the log-probabilities (tokens,) of its tokens.
        """
        device, dtype = self.network.device, self.network.dtype
        inputs = features(self.extractor, waves)["input_features"].to(device, dtype)
        memory = self.network.model.encoder(inputs).last_hidden_state
        ids = pad_sequence(
            [torch.tensor([*self.opening, *text]) for text in texts], batch_first=True
        ).to(device)
        decoded = self.network.model.decoder(
            input_ids=ids, encoder_hidden_states=memory, use_cache=False, output_attentions=True
        )
        layers = decoded.cross_attentions  # each (batch, heads, tokens, encoder frames)
        attention = torch.stack([layers[layer][:, head] for layer, head in self.heads]).mean(dim=0)
        weights, log_probs = [], []
        first = len(self.opening) - 1  # the position that predicts the first token of the text
        for row, text in enumerate(texts):
            weights.append(attention[row, first : first + len(text) + 1].float())
            states = decoded.last_hidden_state[row, first : first + len(text)]
            scores = self.network.proj_out(states).float().log_softmax(dim=-1)
            log_probs.append(scores.gather(1, torch.tensor(text, device=device)[:, None])[:, 0])
        return weights, log_probs


def frames_of(samples: Samples) -> int:
    """Return the number of encoder frames of a wave, at least one."""
    return max(1, ceil(samples / FRAME))


def timed_parts(tokens: Tokens, weights: Tensor, samples: Samples) -> tuple[Word, ...] | None:
    """Return the parts of a text with times, in seconds from the start of the audio.

    The best monotonic path through the attention maximises the sum of its logarithms. A token lasts
    until the path reaches the next one, so a word before a pause may last into the pause.

    Args:
        tokens: tokens of the text.
        weights: (tokens + 1, encoder frames) attention of the tokens and of the end of the text.
        samples: length of the audio.

    Returns:
        The parts; None if the audio has too few frames for the tokens.
    """
    firsts = first_frames(weights[:, : frames_of(samples)].clamp_min(FLOOR).log())
    if firsts is None:
        return None
    edges = [firsts[index] for index in (*tokens.firsts, len(tokens.ids))]
    times = [min(frame * FRAME, samples) / SAMPLE_RATE for frame in edges]
    return tuple(
        Word(text, start, end)
        for text, (start, end) in zip(tokens.texts, pairwise(times), strict=True)
    )


def opening_ids(config: Any, language: str, name: str) -> list[int]:
    """Return the ids before a transcript.

    Args:
        config: generation config of the Whisper, which has the language.
        language: code of the language; a model of English alone has no id for it.
        name: name of the model, for the error message.

    Raises:
        ZooError: the generation config has no start token.
    """
    fields = config.to_dict()
    languages = fields.get("lang_to_id") or {}
    tasks = fields.get("task_to_id") or {}
    start = control_id(config, "decoder_start_token_id", name)
    language_ids = [languages[f"<|{language}|>"], tasks.get("transcribe")] if languages else []
    ids = [start, *language_ids, fields.get("no_timestamps_token_id")]
    return [number for number in ids if number is not None]


def heads_of(network: Any, name: str) -> list[tuple[int, int]]:
    """Return pairs of layer and head: those of the generation config, or the upper half of all.

    Args:
        network: the Whisper.
        name: its name, for the error message.

    Raises:
        ZooError: the decoder lacks one of them.
    """
    depth, heads = network.config.decoder_layers, network.config.decoder_attention_heads
    every = [(layer, head) for layer in range(depth) for head in range(heads)]
    listed = alignment_heads(network.generation_config.to_dict(), depth, heads)
    chosen = [(int(layer), int(head)) for layer, head in listed]
    if missing := [pair for pair in chosen if pair not in every]:
        raise ZooError(
            f"The generation_config.json of {name} lists alignment heads that the decoder of "
            f"{depth} layers with {heads} heads lacks: {missing}."
        )
    return chosen
