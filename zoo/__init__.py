"""SimulZoo: simultaneous speech translation systems on one clock, with one report.

system = zoo.load("infinisst_minitalks_en-de")
trainer = lightning.Trainer(callbacks=[zoo.StreamingEvaluation()])
trainer.test(system, zoo.TalksDataModule("minitalks"))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from zoo.base.machine.imports import is_command, prepare_imports
from zoo.base.version import __version__ as __version__

if TYPE_CHECKING:
    from zoo.apps.loading import load as load
    from zoo.apps.loading import training_plan as training_plan
    from zoo.evaluation.callback import StreamingEvaluation as StreamingEvaluation
    from zoo.evaluation.in_python import evaluate as evaluate
    from zoo.runs.rows.tables import read_results as read_results
    from zoo.systems.lightning.datamodule import TalksDataModule as TalksDataModule

# python -m zoo.live, zoo.translate, zoo.prepare and zoo.submit are the commands of version 0.2
__path__.append(f"{__path__[0]}/apps")
__all__ = [
    "StreamingEvaluation",
    "TalksDataModule",
    "evaluate",
    "load",
    "read_results",
    "training_plan",
]

if is_command():  # whose modules are imported next
    prepare_imports()

# imported at first use, so that ``import zoo.base.types`` needs no network library
_MODULES = {
    "StreamingEvaluation": "zoo.evaluation.callback",
    "TalksDataModule": "zoo.systems.lightning.datamodule",
    "evaluate": "zoo.evaluation.in_python",
    "load": "zoo.apps.loading",
    "read_results": "zoo.runs.rows.tables",
    "training_plan": "zoo.apps.loading",
}


def __getattr__(name: str) -> Any:
    """Return a public class or function. Raises ZooError for wrong variables of a launcher."""
    if name not in _MODULES:
        raise AttributeError(f"module 'zoo' has no attribute {name!r}")
    try:
        return getattr(import_module(_MODULES[name]), name)
    except ValueError:
        from zoo.base.machine.launcher import place

        place()  # Lightning reads RANK and others when it is imported; this names the wrong one
        raise
