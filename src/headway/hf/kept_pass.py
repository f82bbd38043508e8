"""Models: a pass of a decoder of transformers, made again from any of its layers on.

What comes before a layer is shared: once a whole pass was kept, the layers below give what they gave, and are not
computed again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.edits import Edits

Logits = Callable[[Tensor, Edits], Tensor]
"""Of tokens, with edits of the heads."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TheirPass:
    """A pass that was made, from any layer of which on it can be made again."""

    logits_of: Logits
    layers: Sequence[nn.Module]
    tokens: Int[Tensor, "batch pos"]
    logits: Float[Tensor, "batch pos vocab"]
    given: tuple[Any, ...]
    """What each layer gave; nothing where passes can only be made whole."""

    @classmethod
    def of(cls, logits_of: Logits, layers: Sequence[nn.Module], tokens: Int[Tensor, "batch pos"]) -> "TheirPass":
        """A whole pass, and what each layer gave in it."""
        given: list[Any] = []
        with ExitStack() as stack:
            for layer in layers:
                stack.callback(layer.register_forward_hook(lambda _, __, output: given.append(output)).remove)
            logits = logits_of(tokens, {})
        at_once = len(given) == len(layers)  # a layer that is called twice gave two things
        return cls(
            logits_of=logits_of, layers=layers, tokens=tokens, logits=logits, given=tuple(given) if at_once else ()
        )

    @cached_property
    def repeats(self) -> bool:
        """Whether copies of its text can go through the layers side by side: all that they gave is by text."""
        return all(_by_text(output, len(self.tokens)) for output in self.given)

    def again(self, layer: int, edits: Edits, copies: int = 1) -> Float[Tensor, "copies_batch pos vocab"]:
        """The logits with edits of this layer and later ones, which concern copies of the text, side by side."""
        with ExitStack() as stack:
            for module, output in zip(self.layers[:layer], self.given, strict=False):
                stack.enter_context(_giving(module, output, copies))
            return self.logits_of(self.tokens.repeat(copies, 1), edits)

    def share(self, layer: int) -> float:
        """Of a whole pass, about what `again` computes."""
        return 1 - layer / len(self.given) if self.given else 1.0


def _by_text(output: Any, batch: int) -> bool:
    if isinstance(output, tuple):
        return all(_by_text(each, batch) for each in output)
    return len(output) == batch if isinstance(output, Tensor) and output.ndim else output is None


@contextmanager
def _giving(module: nn.Module, output: Any, copies: int) -> Iterator[None]:
    """Within, a module gives what it gave, a copy each time: what comes after may write into it."""
    before = vars(module).get("forward")
    given: Callable[..., Any] = lambda *_, **__: _copied(output, copies)  # noqa: E731
    module.forward = given
    try:
        yield
    finally:
        if before is None:
            del module.forward
        else:
            module.forward = before


def _copied(output: Any, copies: int) -> Any:
    if isinstance(output, tuple):
        return tuple(_copied(each, copies) for each in output)
    if not isinstance(output, Tensor):
        return output
    return output.clone() if copies == 1 else output.repeat(copies, *[1] * (output.ndim - 1))
