"""Speech LLM of InfiniSST and LST: speech encoder, adapter and causal LM.

The architecture is described in InfiniSST, section 3.2.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from zoo.backbones.architectures.speech_llm.data import Batch, TeacherForcingOutput
from zoo.backbones.architectures.speech_llm.prompt import DialoguePrompt, Template, template_named
from zoo.backbones.base import Backbone, TokenizerCorpus, dtype_named
from zoo.backbones.decoding.causal import layers
from zoo.backbones.decoding.causal.decoder import build_decoder
from zoo.backbones.decoding.static_steps import Capture, StaticSteps
from zoo.backbones.decoding.teacher_forcing import (
    causal_logits,
    enable_checkpointing,
    gradients_if_trained,
    token_loss,
)
from zoo.backbones.encoders.wav2vec2.adapter import Adapter
from zoo.backbones.encoders.wav2vec2.encoder import Encoded, EncoderConfig, StreamingEncoder
from zoo.backbones.encoders.wav2vec2.weights import load_encoder
from zoo.backbones.pretrained import hub, weights
from zoo.backbones.pretrained import lora as adapters
from zoo.backbones.pretrained.loading import load_tokenizer
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.backbones.text.tokenizer import SPECIAL_TOKENS, train_tokenizer
from zoo.backbones.text.vocabulary import containing, detokenise
from zoo.base.errors import ZooError, check_numbers
from zoo.base.machine.int8 import DecoderWeights, decoder_weights_named
from zoo.streaming.stages import stage

ADAPTED = r"decoder\.model\.layers\.\d+\.(self_attn|mlp)\.\w+_proj"  # layers that LoRA adapts


class SpeechLLM(Backbone):
    """A causal LM whose input sequence contains token embeddings and speech embeddings.

    The encoder and the adapter compute the speech embeddings, which replace the embeddings of
    speech placeholder tokens in the prompt.

    Attributes:
        experiment: Name of the experiment that trains a small model of this class.
        weights_key: Name of the constructor argument that takes the trained weights.
        encoder: Speech encoder.
        adapter: Network from encoder frames to speech embeddings.
        decoder: Causal LM.
        tokenizer: Tokenizer of the causal LM.
        prompt: Builder of the prompt ids.
        never: Ids that are never generated.
    """

    experiment: ClassVar[str]
    weights_key = "checkpoint"
    training_arguments = frozenset({"lora", "gradient_checkpointing", "layer_drop"})

    encoder: StreamingEncoder
    adapter: Adapter
    decoder: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    prompt: DialoguePrompt
    never: list[int]

    def __init__(
        self,
        *,
        encoder: EncoderConfig,
        decoder: str | Mapping[str, Any],
        template: Template | str,
        tokenizer: str | None = None,
        checkpoint: str | None = None,
        encoder_weights: str | None = None,
        adapter_norm: bool = False,
        embedding_std: float | None = None,
        latency_tokens: int = 4,
        dtype: str = "float32",
        decoder_weights: DecoderWeights = "dtype",
        suppress: Sequence[str] = (),
        capture: Capture = "off",
        lora: LoraConfig | None = None,
        gradient_checkpointing: bool = False,
        layer_drop: float = 0.0,
    ) -> None:
        """Configure the network; ``load`` reads weights.

        Args:
            encoder: Shape of the streaming speech encoder.
            decoder: Hub id or folder of a pretrained LM, or the fields of a configuration, which
                give a randomly initialised LM. With a checkpoint, only the configuration is read.
            template: Strings of the dialogue, or the name of an entry of ``prompt.TEMPLATES``.
            tokenizer: Hub id or folder of the tokenizer, ignored with a checkpoint, which has its
                own.
            checkpoint: Folder with ``model.safetensors`` and tokenizer files. None starts from
                pretrained or randomly initialised parts.
            encoder_weights: Hub id or folder of initial encoder weights, ignored with a checkpoint.
                None initialises the encoder randomly.
            adapter_norm: Whether each convolution of the adapter is followed by a layer norm.
            embedding_std: Standard deviation of randomly initialised embeddings of the decoder.
                None uses the default of the model class.
            latency_tokens: Number of latency tokens, for m = 1 to this number, that a template with
                ``adds_tokens`` adds to the tokenizer. Ignored with a checkpoint.
            dtype: Name of the torch dtype of weights and activations.
            decoder_weights: Type of the weights that each decoding step reads: ``dtype``, or
                ``int8`` for less time per token on a CPU; trainings have no use for it.
            suppress: Texts that must not be generated. Tokens that contain one of the texts are
                excluded.
            capture: ``auto`` replays decoding steps as CUDA graphs on a GPU; ``static`` computes
                steps of the same fixed shapes without graphs, on any device; ``off`` does neither.
            lora: Trainable adapter of the decoder, the part ``lora``. An adapter in ``checkpoint``
                is loaded; otherwise a new adapter is added. None merges an adapter in
                ``checkpoint`` into the weights.
            gradient_checkpointing: Whether training recomputes activations of encoder and decoder
                instead of keeping them.
            layer_drop: Probability with which a training step leaves out a layer of the encoder.

        Raises:
            ZooError: If neither tokenizer nor checkpoint is given, a name is unknown, or
                ``latency_tokens`` is below 1.
        """
        super().__init__()
        if tokenizer is None and checkpoint is None:
            raise ZooError(
                f"{type(self).__name__} needs a tokenizer: name one (hub id or folder) or a "
                "checkpoint that has it."
            )
        self.encoder_config = encoder
        self.decoder_source = decoder
        self.template = template_named(template)
        check_numbers(type(self).__name__, least=1, latency_tokens=latency_tokens)
        self.tokenizer_source = tokenizer if checkpoint is None else checkpoint
        self.latency_tokens = latency_tokens
        self.checkpoint = checkpoint
        self.encoder_weights = encoder_weights
        self.adapter_norm = adapter_norm
        self.embedding_std = embedding_std
        self.dtype = dtype_named(dtype)
        self.decoder_weights = decoder_weights_named(decoder_weights)
        self.suppress = suppress
        self.steps = StaticSteps(capture)
        self.lora = lora
        self.gradient_checkpointing = gradient_checkpointing
        self.layer_drop = layer_drop

    def load(self) -> None:
        """Create encoder, adapter and decoder and read their weights.

        Raises:
            ZooError: If a file or hub model is missing, weights have another name or shape than the
                network, or an adapter in the checkpoint does not match ``lora``.
        """
        if self.checkpoint is not None:
            weights.check_trained(
                self.checkpoint,
                noun=type(self).__name__,
                experiment=self.experiment,
                key=self.weights_key,
            )
        for noun, name in self._loaded_models():
            hub.check(noun, name)
        self.tokenizer = load_tokenizer(str(self.tokenizer_source))
        if self.checkpoint is None:
            added = self.template.added_tokens(self.latency_tokens)
            self.tokenizer.add_tokens(added, special_tokens=True)
        self.prompt = DialoguePrompt(tokenizer=self.tokenizer, template=self.template)
        self.never = [self.prompt.speech, *containing(self.tokenizer, self.suppress)]
        self._build()
        if self.checkpoint is not None:
            weights.load_weights(self, Path(self.checkpoint))
        trained = None if self.checkpoint is None else adapters.read_adapter(Path(self.checkpoint))
        adapters.install(self, trained, self.lora, ADAPTED)
        if self.gradient_checkpointing:
            enable_checkpointing(self.decoder)

    def unnamed_weights(self) -> str | None:
        """Return the argument of the checkpoint, without which the adapter is random."""
        return self.weights_key if self.checkpoint is None else None

    def int8_layers(self) -> Iterable[nn.Module]:
        """Return the linear layers of the causal LM, if they get int8 weights."""
        return layers.step_layers(self.decoder) if self.decoder_weights == "int8" else ()

    def arrange(self) -> None:
        """Choose the memory layout of the weights for streaming; values stay the same."""
        layers.arrange(self, self.decoder)

    def _build(self) -> None:
        """Create encoder, adapter and decoder, with initial weights if there is no checkpoint."""
        is_trained = self.checkpoint is not None
        with weights.without_initial_values(is_trained):
            self.encoder = StreamingEncoder(
                self.encoder_config,
                layer_drop=self.layer_drop,
                gradient_checkpointing=self.gradient_checkpointing,
            ).to(self.dtype)
        if not is_trained and self.encoder_weights is not None:
            load_encoder(self.encoder, self.encoder_weights)
        self.decoder = build_decoder(
            self.decoder_source,
            vocabulary=len(self.tokenizer),
            embedding_std=self.embedding_std,
            dtype=self.dtype,
            empty=is_trained,
        )
        with weights.without_initial_values(is_trained):
            adapter = Adapter(
                hidden=self.encoder_config.hidden,
                embedding=self.decoder.config.hidden_size,
                norm=self.adapter_norm,
            )
        self.adapter = adapter.to(self.dtype)

    def _loaded_models(self) -> Iterator[tuple[str, str]]:
        """Yield a noun for messages and the hub id or folder of every part that is loaded."""
        yield "tokenizer", str(self.tokenizer_source)
        if self.checkpoint is None and self.encoder_weights is not None:
            yield "encoder", self.encoder_weights
        if isinstance(self.decoder_source, str):
            yield "decoder", self.decoder_source

    def save(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write ``model.safetensors`` and the tokenizer to ``folder``.

        ``LoraConfig.save`` decides whether an adapter is merged or written to a subfolder.
        """
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        tensors = adapters.save_adapter(
            weights.export_weights(self, dtype), path, self.lora, ADAPTED
        )
        weights.save_tensors(tensors, path / weights.WEIGHTS)
        self.tokenizer.save_pretrained(folder)

    def parts(self) -> dict[str, Iterable[nn.Parameter]]:
        """Parameters of ``encoder``, ``adapter`` and ``decoder``, and of ``lora`` if it is set.

        The parameters of LoRA belong to ``lora``, not to ``decoder``.
        """
        parts: dict[str, Iterable[nn.Parameter]] = {
            name: adapters.others(child) for name, child in self.named_children()
        }
        if self.lora is not None:
            parts["lora"] = adapters.parameters(self)
        return parts

    @classmethod
    def train_tokenizer(
        cls, corpus: TokenizerCorpus, folder: Path, arguments: Mapping[str, Any]
    ) -> None:
        """Train a byte-level BPE on the translations, with the template's special tokens."""
        template = arguments.get("template")
        special = list(SPECIAL_TOKENS)
        if template is not None:
            special += template_named(template).special_tokens(max(corpus.multipliers))
        train_tokenizer(
            corpus.translations,
            vocabulary_size=corpus.size,
            unit=corpus.unit,
            special_tokens=special,
        ).save_pretrained(folder)

    def text(self, token_ids: list[int]) -> str:
        """Detokenise ids; special tokens are skipped."""
        return detokenise(self.tokenizer, token_ids)

    def teacher_forced(self, batch: Batch, frames: Tensor) -> TeacherForcingOutput:
        """Run teacher forcing over a batch of dialogues.

        Args:
            batch: Ids, labels and speech positions.
            frames: (batch, frames, hidden) encoder output.

        Returns:
            Loss, logits and labels.
        """
        embeddings = self.decoder.get_input_embeddings()(batch.input_ids)
        speech = self.adapt(frames).to(embeddings.dtype)

        # Replace the embeddings of speech placeholder tokens; -1 marks padded positions.
        rows, speech_indices = (batch.speech_positions >= 0).nonzero(as_tuple=True)
        positions = batch.speech_positions[rows, speech_indices]
        embeddings = embeddings.index_put((rows, positions), speech[rows, speech_indices])

        logits, targets = causal_logits(self.decoder, batch.labels, inputs_embeds=embeddings)
        return TeacherForcingOutput(token_loss(logits, targets), logits, targets)

    def encode_training(
        self, samples: Tensor, multiplier: int, lengths: Tensor | None = None
    ) -> Encoded:
        """Encode audio from the start of each stream, without gradients if the encoder is frozen.

        Args:
            samples: (batch, n) samples at 16 kHz.
            multiplier: Latency multiplier m, the encoder's block size in chunks.
            lengths: (batch,) number of frames before the padding of each signal. None means that no
                signal is padded.

        Returns:
            Outputs of the last and of the middle layer, (batch, n / 320, hidden) each.
        """
        with gradients_if_trained(self.encoder.parameters()):
            encoded: Encoded = self.encoder(
                samples.to(self.part_dtype("encoder")), multiplier, lengths
            )
        return encoded

    @stage("encoder")
    def adapt(self, frames: Tensor) -> Tensor:
        """Convert encoder frames (batch, n, hidden) to speech embeddings (batch, n / 4, width)."""
        speech: Tensor = self.adapter(frames.to(self.part_dtype("adapter")))
        return speech

    def embed(self, ids: Sequence[int], speech: Tensor) -> Tensor:
        """Embed prompt ids and insert the speech embeddings.

        Args:
            ids: Prompt ids with n speech placeholder ids.
            speech: (n, embedding) speech embeddings in the order of the placeholders.

        Returns:
            (len(ids), embedding).
        """
        tokens = torch.tensor(ids, device=speech.device)
        embeddings: Tensor = self.decoder.get_input_embeddings()(tokens)
        embeddings[tokens == self.prompt.speech] = speech.to(embeddings.dtype)
        return embeddings
