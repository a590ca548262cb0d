"""Do these parts fit? Decided from what each declares, before any weight is loaded."""

from zoo.backbones.base import Backbone
from zoo.errors import ZooError
from zoo.history.base import History
from zoo.policies.base import Policy
from zoo.synthesizers.base import Synthesizer
from zoo.types import Capability


def bind(
    backbone: Backbone, policy: Policy, history: History, synthesizer: Synthesizer | None = None
) -> frozenset[Capability]:
    """All capabilities the parts need of the backbone. Raises ZooError naming what is missing and what exists."""
    needs: frozenset[Capability] = frozenset()
    for part in (policy, history, synthesizer):
        if part is None:
            continue
        missing = part.needs - backbone.exposes
        if missing:
            raise ZooError(
                f"{type(part).__name__} needs {_names(missing)}, which backbone {type(backbone).__name__} does not "
                f"expose; it exposes {_names(backbone.exposes) or 'nothing'}."
            )
        needs |= part.needs
    return needs


def _names(capabilities: frozenset[Capability]) -> str:
    return ", ".join(sorted(capabilities))
