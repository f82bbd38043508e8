"""Models: a pass of a decoder of transformers, made again from any of its layers on.

What comes before a layer is shared: once a whole pass was kept, the layers below give what they gave, and are not
computed again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.hf.stream_sums import answering, with_added
from headway.model.edits import Edits, Site

_READ: tuple[Site, ...] = ("q", "k", "v")

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
                # A copy each time: what comes after may write into it.
                stack.enter_context(answering(module, partial(_copied, output, copies)))
            return self.logits_of(self.tokens.repeat(copies, 1), edits)

    def writes(
        self, layer: int, norm: nn.Module, edits: Edits, copies: int = 1
    ) -> Float[Tensor, "copies_batch pos d_model"]:
        """What a norm between a layer's heads and the stream gives, in copies of the text, side by side."""
        gave: list[Tensor] = []

        def stop(_: nn.Module, __: tuple[Any, ...], output: Tensor) -> None:
            gave.append(output)
            raise _SeenAll

        hook = norm.register_forward_hook(stop)
        try:
            with suppress(_SeenAll):
                self.again(layer, edits, copies)
        finally:
            hook.remove()
        return gave[0]

    def reads(
        self, layer: int, change: Float[Tensor, "copies_batch pos d_model"]
    ) -> dict[Site, Float[Tensor, "copies_batch head pos d_head"]]:
        """Queries, keys and values of a layer whose stream is changed, in copies of the text, side by side."""
        seen: dict[Site, Tensor] = {}
        edits: Edits = {(layer, site): partial(_noted, seen, site) for site in _READ}
        with suppress(_SeenAll), _added(self.layers[layer], change):
            self.again(layer, edits, len(change) // len(self.tokens))
        return seen

    def ends(self, change: Float[Tensor, "copies_batch pos d_model"]) -> Float[Tensor, "copies_batch pos vocab"]:
        """The logits where the stream after the last layer is changed, in copies of the text, side by side."""
        copies = len(change) // len(self.tokens)
        last = _copied(self.given[-1], copies)
        changed = (last[0] + change, *last[1:]) if isinstance(last, tuple) else last + change
        with answering(self.layers[-1], lambda: changed):
            return self.again(len(self.layers) - 1, {}, copies)

    def share(self, layer: int) -> float:
        """Of a whole pass, about what `again` computes."""
        return 1 - layer / len(self.given) if self.given else 1.0


class _SeenAll(Exception):
    """All that was wanted of a pass has been seen."""


def _noted(seen: dict[Site, Tensor], site: Site, x: Tensor) -> Tensor:
    seen[site] = x
    if len(seen) == len(_READ):
        raise _SeenAll
    return x


def _by_text(output: Any, batch: int) -> bool:
    if isinstance(output, tuple):
        return all(_by_text(each, batch) for each in output)
    return len(output) == batch if isinstance(output, Tensor) and output.ndim else output is None


@contextmanager
def _added(module: nn.Module, change: Tensor) -> Iterator[None]:
    """Within, something is added to the stream that enters a layer."""
    hook = module.register_forward_pre_hook(
        lambda _, args, options: with_added(args, options, change), with_kwargs=True
    )
    try:
        yield
    finally:
        hook.remove()


def _copied(output: Any, copies: int) -> Any:
    if isinstance(output, tuple):
        return tuple(_copied(each, copies) for each in output)
    if not isinstance(output, Tensor):
        return output
    return output.clone() if copies == 1 else output.repeat(copies, *[1] * (output.ndim - 1))
