"""Finished: how much of a model one page has room for: bytes, and how many steps of its training."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headway.declare.log_spaced import thinned
from headway.words import counted

_BESIDES, _OF_A_HEAD, _OF_A_STEP = 300_000, 3_000, 1_000
"""Bytes of a page that are no patterns: of any page, of each head, and of each head at a step of its training."""
SMALLEST = 2 * _BESIDES
"""Bytes of the smallest page."""
_SHARE = 0.2
"""Of a page, at most, for the circuits of steps of its training."""
_MOST = 60
"""Steps of a slider."""


@dataclass(frozen=True, kw_only=True)
class PageRoom:
    """The room of a page.

    Attributes:
        largest: bytes that it may have.
        n_heads: of the model.
    """

    largest: int
    n_heads: int

    @property
    def below(self) -> str:
        """Why there is no more room, and what gives more, in words."""
        more = "fewer heads (--heads), a shorter --length or a larger --largest keep more"
        return f"so that the page stays below {self.largest / 1e6:,.3g} MB; {more}"

    def steps(self, kept: Sequence[int]) -> list[int]:
        """Those of the steps whose weights were kept that are on the page, evenly on a log scale."""
        most = max(2, min(_MOST, int(_SHARE * self.largest / (_OF_A_STEP * self.n_heads))))
        return [kept[at] for at in thinned(kept, most)] if kept else []

    def left_out(self, kept: Sequence[int]) -> Iterator[str]:
        """Which of the steps are not, in a sentence."""
        if (few := len(self.steps(kept))) < len(kept):
            yield f"circuits are those of {few} of {counted(len(kept), 'step')} whose weights were kept"

    def for_patterns(self, n_steps: int) -> int:
        """Bytes that are left for patterns, as they are before a page writes them in letters."""
        return (self.largest - _BESIDES - (_OF_A_HEAD + _OF_A_STEP * n_steps) * self.n_heads) * 3 // 4
