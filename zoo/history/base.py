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

    def onset(self, session: Session) -> Frames | None:
        """Kept frame at which there is something to translate: what lies before it is forgotten unheard.

        Asked first after each chunk and after each flush, while audio is kept. None: there is nothing yet, so the
        policy is not asked and ``trim`` says what to keep. Frames above 0 only where a segment begins, for a policy may
        count frames, and only by a history that ``needs`` RECUT.
        """
        return 0

    def boundary(self, session: Session) -> Frames | None:
        """Kept frame (> 0) at which a segment has ended: everything before it is written out, then forgotten.

        Asked after ``onset``; None: no (further) segment has ended. A history that returns frames here ``needs`` RECUT.
        """
        return None

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        """What to forget after a write. ``hypothesis``: the last translation; its written tokens are already in
        ``session.prefix_ids``, and its ``alignment`` rows begin with the kept prefix. None: nothing was asked, or the
        policy has cut by itself, so that the rows no longer fit."""
        return Cut()
