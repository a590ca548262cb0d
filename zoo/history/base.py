"""What to forget. A history sees sessions and hypotheses, never a network."""

from typing import Any, ClassVar

from zoo.streaming.session import Session
from zoo.types import Capability, Cut, Frames, Hypothesis


class History:
    """Keeps everything; subclasses forget."""

    needs: ClassVar[frozenset[Capability]] = frozenset()

    def open(self) -> Any:
        """State of a new stream (None: the history remembers nothing)."""
        return None

    def boundary(self, session: Session) -> Frames | None:
        """Kept frame (> 0) at which a segment has ended: everything before it is written out, then forgotten.

        Asked after each chunk and again after each flush, while audio is kept; None: no (further) segment has ended.
        A history that returns frames here ``needs`` RECUT.
        """
        return None

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        """What to forget after a write. ``hypothesis``: the last translation; its written tokens are already in
        ``session.prefix``, and its ``alignment`` rows begin with the kept prefix. None: nothing was asked, or the
        policy has cut by itself, so that the rows no longer fit."""
        return Cut()
