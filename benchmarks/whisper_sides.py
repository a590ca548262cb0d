"""One side of ``whisper_peers.py``: a tool that transcribes streams, in a process of its own.

The parent writes a JSON object per line: the settings of the side first, then ``{"open": FILE}`` to
begin a recording, a NumPy file of samples at 16 kHz, and ``{"begin": ..., "end": ...}`` in samples
for each of its chunks. The answers are JSON lines, too: that of a chunk has its CPU seconds and the
new text. Nothing of the zoo is imported for another tool, whose environment may lack it.
"""

import argparse
import functools
import importlib
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

RATE = 16000
MULTILINGUAL = 51865  # tokens of the smallest vocabulary of several languages
WARM_UP = 3  # chunks of the first recording before it is measured
# Names of a state dict of Transformers, and of OpenAI's code; the first that fits is replaced.
RENAMED = (
    (".encoder_attn_layer_norm.", ".cross_attn_ln."),
    (".self_attn_layer_norm.", ".attn_ln."),
    (".final_layer_norm.", ".mlp_ln."),
    (".encoder_attn.", ".cross_attn."),
    (".self_attn.", ".attn."),
    (".fc1.", ".mlp.0."),
    (".fc2.", ".mlp.2."),
    (".embed_positions.weight", ".positional_embedding"),
    (".embed_tokens.", ".token_embedding."),
    ("encoder.layer_norm.", "encoder.ln_post."),
    ("decoder.layer_norm.", "decoder.ln."),
)
PROJECTIONS = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "out"}


class Side(Protocol):
    """A tool that transcribes one stream at a time."""

    def open(self) -> None:
        """Begin a new stream."""

    def step(self, samples: np.ndarray, *, final: bool) -> str:
        """Return the text that the tool emits after a chunk (n,); after the last one, all text."""


class Zoo:
    """StreamAtt on Whisper, with the defaults of ``system=streamatt backbone=whisper``.

    Args:
        settings: ``whisper``, ``language``, ``frames``, ``chunk_seconds``, and ``overrides``, keys
            of the configuration with their values.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        import torch

        import harness  # noqa: F401 - puts the zoo on the module path
        import zoo
        from zoo.base.types import SpeechChunk

        self.chunk = lambda samples, final: SpeechChunk(torch.from_numpy(samples), final=final)
        self.system = zoo.load(
            "streamatt",
            backbone="whisper",
            source_language=settings["language"],
            target_language=settings["language"],
            **{
                "backbone.name": settings["whisper"],
                "policy.frames": settings["frames"],
                "system.chunk_seconds": settings["chunk_seconds"],
                **settings["overrides"],
            },
        )
        self.system.configure_model()
        self.system.eval()

    def open(self) -> None:
        """Begin a new stream."""
        self.session = self.system.open("recording")

    def step(self, samples: np.ndarray, *, final: bool) -> str:
        """Return the text of one step."""
        [action] = self.system.step([self.session], [self.chunk(samples, final)])
        return action.text


class OnlineTool:
    """A tool with the interface of whisper_streaming, which SimulStreaming has, too.

    Attributes:
        online: Its stream.
    """

    online: Any

    def open(self) -> None:
        """Begin a new stream."""
        self.online.init()

    def step(self, samples: np.ndarray, *, final: bool) -> str:
        """Return the text of one step, and after the last one that of the end."""
        self.online.insert_audio_chunk(samples)
        outputs = [self.online.process_iter()]
        if final:
            outputs.append(self.online.finish())
        return "".join(map(self.text_of, outputs))

    def text_of(self, output: Any) -> str:
        """Return the text of an output."""
        raise NotImplementedError


def command_line(arguments: Mapping[str, Any]) -> list[str]:
    """Return arguments as a tool's own command line has them."""
    return [text for name, value in arguments.items() for text in (f"--{name}", str(value))]


class SimulStreaming(OnlineTool):
    """SimulStreaming's loop for simulations, on the weights of a folder of Transformers.

    Args:
        settings: ``folder`` of the clone, ``whisper``, ``language``, ``frames``, ``chunk_seconds``.
            All else has the defaults of its command line.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        sys.path.insert(0, settings["folder"])
        tool = importlib.import_module("simulstreaming_whisper")
        common = importlib.import_module(
            "simulstreaming.whisper.whisper_streaming.whisper_online_main"
        )
        loop = importlib.import_module("simulstreaming.whisper.simul_whisper.simul_whisper")
        # The tool loads files of OpenAI by their names; other files have no alignment heads there.
        loop.load_model = lambda **_: openai_whisper(Path(settings["whisper"]))  # type: ignore[attr-defined]

        vocabulary = configuration(Path(settings["whisper"]))["vocab_size"]
        is_multilingual = vocabulary >= MULTILINGUAL  # the tool reads it from the name of a file
        parser = argparse.ArgumentParser()
        common.processor_args(parser)
        tool.simulwhisper_args(parser)
        arguments = {
            "model_path": "whisper.pt" if is_multilingual else "whisper.en.pt",
            "language": settings["language"],
            "min-chunk-size": settings["chunk_seconds"],
            "frame_threshold": settings["frames"],
            "log-level": "ERROR",
        }
        _, self.online = tool.simul_asr_factory(parser.parse_args(command_line(arguments)))

    def text_of(self, output: Any) -> str:
        """Return the text of an output."""
        return str(output.get("text", ""))


class WhisperStreaming(OnlineTool):
    """whisper_streaming with faster-whisper in int8 on the CPU.

    Args:
        settings: ``folder`` of the clone, ``whisper``, ``converted``, a folder for the weights of
            CTranslate2, ``language``, ``chunk_seconds``, ``threads``, and ``beams``, None for
            those of the tool.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        sys.path.insert(0, settings["folder"])
        tool = importlib.import_module("whisper_online")
        faster_whisper = importlib.import_module("faster_whisper")
        converted = Path(settings["converted"])
        if not converted.exists():
            convert(Path(settings["whisper"]), converted)

        def load_model(_: object, size: str, cache: str | None, model_dir: str) -> Any:
            # The tool loads to a GPU; its source names this line for a CPU.
            model = faster_whisper.WhisperModel(
                model_dir, device="cpu", compute_type="int8", cpu_threads=settings["threads"]
            )
            if settings["beams"]:
                model.transcribe = functools.partial(
                    with_beams, model.transcribe, settings["beams"]
                )
            return model

        tool.FasterWhisperASR.load_model = load_model
        parser = argparse.ArgumentParser()
        tool.add_shared_args(parser)
        arguments = {
            "model_dir": converted,
            "language": settings["language"],
            "min-chunk-size": settings["chunk_seconds"],
            "log-level": "ERROR",
        }
        _, self.online = tool.asr_factory(parser.parse_args(command_line(arguments)))

    def text_of(self, output: Any) -> str:
        """Return the text of an output."""
        return str(output[2])


def with_beams(transcribe: Any, beams: int, *arguments: Any, **options: Any) -> Any:
    """Call faster-whisper's ``transcribe`` with another beam size."""
    return transcribe(*arguments, **{**options, "beam_size": beams})


def convert(whisper: Path, converted: Path) -> None:
    """Write the weights of a folder of Transformers as int8 for CTranslate2."""
    converters = importlib.import_module("ctranslate2.converters")
    files = ["tokenizer.json", "preprocessor_config.json"]
    converter = converters.TransformersConverter(str(whisper), copy_files=files)
    converter.convert(str(converted), quantization="int8")


def openai_name(name: str) -> str:
    """Return the name of a weight in OpenAI's Whisper, given that of Transformers."""
    name = name.removeprefix("model.").replace(".layers.", ".blocks.")
    for theirs, ours in RENAMED:
        if theirs in name:
            name = name.replace(theirs, ours)
            break
    parts = name.split(".")
    return ".".join(PROJECTIONS.get(part, part) for part in parts)


def configuration(folder: Path, file: str = "config.json") -> dict[str, Any]:
    """Return a configuration of Transformers."""
    contents: dict[str, Any] = json.loads((folder / file).read_text(encoding="utf-8"))
    return contents


def openai_whisper(folder: Path) -> Any:
    """Return SimulStreaming's network with the weights and heads of a folder of Transformers."""
    import torch
    from safetensors.torch import load_file

    network = importlib.import_module("simulstreaming.whisper.simul_whisper.whisper.model")
    config = configuration(folder)
    generation = configuration(folder, "generation_config.json")
    dimensions = network.ModelDimensions(
        n_mels=config["num_mel_bins"],
        n_audio_ctx=config["max_source_positions"],
        n_audio_state=config["d_model"],
        n_audio_head=config["encoder_attention_heads"],
        n_audio_layer=config["encoder_layers"],
        n_vocab=config["vocab_size"],
        n_text_ctx=config["max_target_positions"],
        n_text_state=config["d_model"],
        n_text_head=config["decoder_attention_heads"],
        n_text_layer=config["decoder_layers"],
    )
    weights = {
        openai_name(name): weight.float()
        for name, weight in load_file(folder / "model.safetensors").items()
        if name != "proj_out.weight"  # that of the embedding
    }
    model = network.Whisper(dimensions)
    model.load_state_dict(weights)
    heads = torch.zeros(dimensions.n_text_layer, dimensions.n_text_head, dtype=torch.bool)
    for layer, head in generation["alignment_heads"]:
        heads[layer, head] = True
    model.register_buffer("alignment_heads", heads.to_sparse(), persistent=False)
    return model.eval()


SIDES = {"zoo": Zoo, "simulstreaming": SimulStreaming, "whisper_streaming": WhisperStreaming}


def answer(side: Side, samples: np.ndarray, begin: int, end: int) -> dict[str, Any]:
    """Process one chunk; return its CPU seconds, all threads together, and the text."""
    start = time.process_time()
    text = side.step(samples[begin:end], final=end >= len(samples))
    return {"seconds": time.process_time() - start, "text": text}


def main() -> None:
    """Load the side, then answer the requests on stdin until it ends."""
    # Tools print to stdout, which only the answers may use.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    settings = json.loads(sys.stdin.readline())
    try:
        import torch

        torch.set_num_threads(settings["threads"])
    except ModuleNotFoundError:
        pass  # CTranslate2 alone needs none
    side: Side = SIDES[settings["side"]](settings)

    samples = np.zeros(0, dtype=np.float32)
    is_warm = False
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        reply: dict[str, Any] = {}
        if "open" in request:
            samples = np.load(request["open"])
            chunk = round(settings["chunk_seconds"] * RATE)
            side.open()
            for begin in range(0, 0 if is_warm else WARM_UP * chunk, chunk):
                side.step(samples[begin : begin + chunk], final=False)
            if not is_warm:
                side.open()
            is_warm = True
        else:
            reply = answer(side, samples, request["begin"], request["end"])
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    main()
