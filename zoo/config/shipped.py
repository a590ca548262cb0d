"""The checkpoints of the repository, which no wheel contains."""

from pathlib import Path

from zoo.base.machine.hints import INSTALLED

REPOSITORY = "https://github.com/simulzoo/simulzoo"
SHIPPED = (
    "cascade_minitalks_en-de",
    "infinisst_minitalks_en-de",
    "infinisst_minitalks_en-es",
    "infinisst_minitalks_en-zh",
    "learned_wait_minitalks_en-de",
    "lst_minitalks_en-de",
    "offline_minitalks_en-de",
    "phi4_minitalks_en-de",
    "qwen_minitalks_en-de",
    "recogniser_minitalks_de",
    "simulu_minitalks_en-de",
)
GET = f"git clone --depth 1 {REPOSITORY} && cp -r simulzoo/checkpoints ."


def how_to_get(folder: str | Path) -> str | None:
    """Return how a user of an installed package gets a checkpoint of the repository.

    Args:
        folder: folder that a configuration names, relative to the current one.

    Returns:
        The beginning of a sentence, with the command; None if the folder exists or is no checkpoint
        of the repository, or the package runs in the repository.
    """
    path = Path(folder)
    if not INSTALLED or path.is_dir() or path.name not in SHIPPED:
        return None
    return f"The package contains no weights, and there is no {path} here; run `{GET}`"
