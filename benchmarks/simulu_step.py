"""python benchmarks/simulu_step.py [--small] [--option N ...]: what SimulU's speech costs, with and without reuse.

A step is a look (encoder, text after a forced prefix), the text decoder's states, units of all kept text, and their
wave. Forms of it that speak the same units differ in where the states come from: the zoo has kept them and feeds the
end of the text, one position; a careful implementation hears and forces the text once more; one that calls
Transformers' ``generate`` after it has decided what to write decodes the text once more, too, and hears twice.
The network is the real class with random weights in the stated size; lengths are fixed, for random weights end texts
anywhere. Seconds of the processor that this process was given, forms in turn. The last line is one JSON object.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.backbones.base import Units, Voiced
from zoo.backbones.common.alignment import AlignmentConfig
from zoo.backbones.common.encoder_decoder.continuation import Continuation
from zoo.backbones.common.search import SearchConfig
from zoo.backbones.seamless_m4t.network import train_pieces
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.errors import ZooError, run_script
from zoo.languages import language
from zoo.streaming.session import Session, SpeechRequest
from zoo.streaming.text import TextStream
from zoo.types import SAMPLE_RATE, Capability, Request, Seconds, SpeechChunk, Task

SIZES = {  # name: default, with --small, meaning
    "hidden": (512, 32, "width of encoder, text decoder and text-to-unit model"),
    "layers": (6, 1, "layers of the speech encoder and of the text decoder"),
    "unit-layers": (4, 1, "layers of the text-to-unit encoder and decoder"),
    "seconds": (12, 3, "audio that is kept"),
    "prefix": (20, 5, "tokens that are kept"),
    "new": (12, 4, "tokens of an answer, all of which are written"),
    "units": (150, 8, "units of the kept and the new text"),
    "steps": (5, 2, "steps; their median counts"),
    "threads": (1, 1, "of torch"),
}
LOOK = frozenset({Capability.ALIGNMENT, Capability.SPEECH})
PARTS = ("look", "states", "units", "wave")
TEXT = "Guten Morgen. Wir reden heute über das Wetter, und das Wetter ist schön!"

States = Callable[[SeamlessM4TSpeech, SpeechRequest], Tensor]


def kept(backbone: SeamlessM4TSpeech, write: SpeechRequest) -> Tensor:
    """What the zoo does."""
    return backbone.fed([write], close=True)[0]


def forced(backbone: SeamlessM4TSpeech, write: SpeechRequest) -> Tensor:
    """Encoder and text decoder once more, over the whole text at once."""
    [memory] = heard(backbone, write.session)
    prompt = [
        *backbone.opening(write.session, Task.TRANSLATION),
        *write.session.prefix_ids.tolist(),
    ]
    prompt += [*write.hypothesis.token_ids.tolist()[: write.tokens], backbone.end]
    texts = Continuation(backbone.decoder, [memory], [prompt], heads={}, states=True)
    return texts.states(0, torch.empty(0, dtype=torch.long))


def generated(backbone: SeamlessM4TSpeech, write: SpeechRequest) -> Tensor:
    """As ``generate``: the text is decoded again, token by token after the forced prefix; then as ``forced``."""
    [memory] = heard(backbone, write.session)
    prompt = [
        *backbone.opening(write.session, Task.TRANSLATION),
        *write.session.prefix_ids.tolist(),
    ]
    texts = Continuation(backbone.decoder, [memory], [prompt], heads={})
    for token in write.hypothesis.token_ids.tolist():
        scores = texts.log_probs[0].clone()
        scores[backbone.never] = -torch.inf
        if int(scores.argmax()) != token:
            raise ZooError("The text that is decoded again is another one.")
        texts.step([token])
    return forced(backbone, write)


FORMS: dict[str, States] = {
    "generate once more": generated,
    "encoder and text decoder once more": forced,
    "states kept = the zoo": kept,
}


def heard(backbone: SeamlessM4TSpeech, session: Session) -> list[Tensor]:
    """The encoder's memory, made anew; features are kept in any form."""
    return backbone.listen([session], [session.visible_audio()])


def network(options: argparse.Namespace, folder: Path) -> SeamlessM4TSpeech:
    """A network that never ends a text or its speech."""
    train_pieces([TEXT] * 20, size=60, source="en", target="de").save_pretrained(folder)
    shape = {
        "hidden_size": options.hidden,
        "initializer_range": 2
        * options.hidden**-0.5,  # large enough that states change what is said
        **{
            f"{part}_ffn_dim": 4 * options.hidden
            for part in ("encoder", "decoder", "t2u_encoder", "t2u_decoder")
        },
        **{
            f"{part}_attention_heads": 8
            for part in ("encoder", "decoder", "t2u_encoder", "t2u_decoder")
        },
        "encoder_layers": 1,
        "decoder_layers": options.layers,
        "speech_encoder_layers": options.layers,
        "speech_encoder_attention_heads": 8,
        "speech_encoder_intermediate_size": 4 * options.hidden,
        "t2u_encoder_layers": options.unit_layers,
        "t2u_decoder_layers": options.unit_layers,
        "unit_hifi_gan_vocab_size": 1000,
        "unit_embed_dim": options.hidden,
        "upsample_initial_channel": max(32, options.hidden // 2),
    }
    torch.manual_seed(0)
    made = SeamlessM4TSpeech(
        config=shape,
        tokenizer=str(folder),
        alignment=AlignmentConfig(layer=options.layers - 1),
        search=SearchConfig(),
        max_tokens=options.new,
        max_units=options.units,
    )
    made.load()
    made.never = [*made.never, made.end]
    with torch.no_grad():
        made.speaker.t2u.lm_head.weight[made.speaker.t2u.config.t2u_eos_token_id] = 0
    return made


def opened(backbone: SeamlessM4TSpeech, options: argparse.Namespace, step: int) -> Session:
    """A stream that has heard so much noise and has written so many tokens."""
    random = torch.Generator().manual_seed(step)
    session = Session(
        talk=f"step {step}",
        source_language=language("en"),
        target_language=language("de"),
        frame_samples=backbone.frame_samples,
        text_stream=TextStream(decode=backbone.text, separator=" "),
        prefix_ids=torch.randint(4, 50, (options.prefix,), generator=random),
    )
    session.backbone_state = backbone.open(session)
    session.receive(SpeechChunk(0.1 * torch.randn(options.seconds * SAMPLE_RATE, generator=random)))
    return session


@torch.inference_mode()
def spoken(
    backbone: SeamlessM4TSpeech, session: Session, states: States
) -> tuple[list[Seconds], Units, Voiced]:
    """Seconds of each part of a step, its units and its wave."""
    marks = [time.process_time()]
    [hypothesis] = backbone.decode([session], [Request()], LOOK)
    marks.append(time.process_time())
    fed = states(backbone, SpeechRequest(session, hypothesis, hypothesis.num_new_tokens, ""))
    marks.append(time.process_time())
    [units] = backbone.speaker.units([fed], [session.target_language], layer=None)
    marks.append(time.process_time())
    [voiced] = backbone.vocode([units.ids], session.target_language)
    marks.append(time.process_time())
    return [end - begin for begin, end in pairwise(marks)], units, voiced


def compare(backbone: SeamlessM4TSpeech, options: argparse.Namespace) -> dict[str, list[Seconds]]:
    """Median seconds of each part, by form. Raises ZooError when two forms do not say the same."""
    seconds: dict[str, list[list[Seconds]]] = {name: [] for name in FORMS}
    for step in range(options.steps + 1):
        said = set()
        for name, states in FORMS.items():
            parts, units, _ = spoken(backbone, opened(backbone, options, step), states)
            said.add(tuple(units.ids.tolist()))
            if step:  # the first one warms up
                seconds[name].append(parts)
        if len(said) > 1:
            raise ZooError(f"The forms do not say the same units in step {step}.")
    return {
        name: [statistics.median(part) for part in zip(*found, strict=True)]
        for name, found in seconds.items()
    }


def facts(found: dict[str, list[Seconds]]) -> dict[str, Any]:
    """Numbers per form, and what the zoo saves: of the whole step, and of all but units and wave."""
    totals = {name: sum(parts) for name, parts in found.items()}
    texts = {name: parts[0] + parts[1] for name, parts in found.items()}
    naive, ours = next(iter(FORMS)), list(FORMS)[-1]
    return {
        "ms": {
            name: {part: round(1000 * value, 1) for part, value in zip(PARTS, parts, strict=True)}
            for name, parts in found.items()
        },
        "faster": round(totals[naive] / totals[ours], 2),
        "faster_without_units_and_wave": round(texts[naive] / texts[ours], 2),
    }


def shown(found: dict[str, list[Seconds]]) -> Table:
    """A line per form."""
    table = Table("form", *(f"{part} (ms)" for part in PARTS), "step (ms)", "faster", box=None)
    slowest = sum(found[next(iter(FORMS))])
    for name, parts in found.items():
        whole = sum(parts)
        table.add_row(
            name, *(f"{1000 * part:.0f}" for part in [*parts, whole]), f"{slowest / whole:.2f}x"
        )
    return table


def size(text: str) -> int:
    """A size on the command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return int(text)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; --small has other defaults."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    small = "--small" in (sys.argv[1:] if given is None else given)
    parser.add_argument("--small", action="store_true", help="start from sizes that take seconds")
    for name, (default, tiny, meaning) in SIZES.items():
        parser.add_argument(
            f"--{name}", type=size, default=tiny if small else default, help=meaning
        )
    options = parser.parse_args(given)
    if options.hidden % 16:
        parser.error(f"argument --hidden: must be a multiple of 16, not {options.hidden}")
    return options


def main() -> None:
    """Run the steps, print a table and the numbers."""
    options = arguments()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        backbone = network(options, Path(folder))
    found = compare(backbone, options)
    Console(width=160).print(shown(found))
    parameters = sum(weight.numel() for weight in backbone.parameters())
    setting = {name.replace("-", "_"): getattr(options, name.replace("-", "_")) for name in SIZES}
    start = {"benchmark": "simulu_step", "parameters_millions": round(parameters / 1e6, 1)}
    print(json.dumps(start | setting | facts(found)))


if __name__ == "__main__":
    run_script(main)
