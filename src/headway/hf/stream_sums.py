"""Models: whether layers of a model of transformers only add to one stream what their parts write.

Then what a head writes reaches every later layer as it is, and direct paths can be measured. That is seen, and not read
off a name: while the parts of a layer give what they gave, what is added to what enters the layer, or taken from what
its heads write, must come out of it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.model.intervenable import StreamSums

_SAME = 1e-5
"""Of the largest entry of the stream, for single precision."""


def stream_sums(
    layers: Sequence[nn.Module],
    run: Callable[[], object],
    written: Mapping[int, tuple[nn.Module, Float[Tensor, "batch pos d_model"]]],
) -> StreamSums:
    """Whether the stream is such a sum.

    Args:
        layers: of the model, in their order.
        run: makes a pass.
        written: by layer what the heads' contexts enter, and what they add to the stream, as traced; without biases.
    """
    why = None if layers else "its layers are not in one list"
    norms: dict[int, nn.Module] = {}
    seen = _seen(layers, run)
    for number, layer in enumerate(seen):
        why = why or _why_not(number, layer, seen[number - 1] if number else None)
        if why is None and number in written and not layer.adds(*written[number]):
            norm = layer.norm_before_sum(written[number][0])
            if norm is None:
                why = f"in layer {number} something is done to it before it is added to the stream"
            else:
                norms[number] = norm
    return StreamSums(why_not=why, norms=norms)


def first_of(given: Any) -> Any:
    """The stream in what a layer gave, or is called with: the first of it."""
    return given[0] if isinstance(given, tuple) and given else given


def with_added(
    args: tuple[Any, ...], options: Mapping[str, Any], added: Tensor
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a layer is called with, with something added to the stream."""
    if args:
        return (args[0] + added, *args[1:]), dict(options)
    name = next(iter(options))
    return args, {**options, name: options[name] + added}


@contextmanager
def answering(module: nn.Module, answer: Callable[[], Any]) -> Iterator[None]:
    """Within, whatever a module is called with, it gives an answer."""
    before = vars(module).get("forward")
    given: Callable[..., Any] = lambda *_, **__: answer()  # noqa: E731
    module.forward = given
    try:
        yield
    finally:
        if before is None:
            del module.forward
        else:
            module.forward = before


@dataclass(kw_only=True)
class _Seen:
    """A layer in a pass: what it was called with, what it gave, and what each of its parts that has weights did."""

    module: nn.Module
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    gave: list[Any] = field(default_factory=list)
    parts: dict[nn.Module, list[Any]] = field(default_factory=dict)
    order: list[nn.Module] = field(default_factory=list)
    """Of the parts, as they were run."""

    @property
    def entered(self) -> Any:
        """The stream before it."""
        args, options = self.calls[0]
        return args[0] if args else next(iter(options.values()), None)

    def again(self, added: Tensor, live: Collection[nn.Module] = ()) -> Any:
        """The stream after it with something added before it, while its parts but for some give what they gave."""
        args, options = with_added(*self.calls[0], added)
        with ExitStack() as stack:
            for part, outputs in self.parts.items():
                if part not in live:
                    stack.enter_context(answering(part, partial(next, iter(outputs))))
            return first_of(self.module(*args, **options))

    def adds(self, projection: nn.Module, written: Tensor) -> bool:
        """Whether without what its heads write, and with all else as it was, that is missing in what it gives."""
        left = self._without_heads(projection, self._holding(projection))
        return _same(left, first_of(self.gave[0]) - written)

    def norm_before_sum(self, projection: nn.Module) -> nn.Module | None:
        """What is run after the part with the heads, if what it gives is what is added to the stream."""
        holding, gave = self._holding(projection), list[Tensor]()
        norm = next((part for before, part in pairwise(self.order) if before in holding), None)
        if norm is None or len(self.parts[norm]) != 1 or not isinstance(self.parts[norm][0], Tensor):
            return None
        hook = norm.register_forward_hook(partial(_gave, gave))
        try:
            left = self._without_heads(projection, [*holding, norm])
        finally:
            hook.remove()
        return norm if _same(left, first_of(self.gave[0]) + gave[0] - self.parts[norm][0]) else None

    def _holding(self, projection: nn.Module) -> list[nn.Module]:
        return [part for part in self.parts if projection in set(part.modules())]

    def _without_heads(self, projection: nn.Module, live: Collection[nn.Module]) -> Any:
        hook = projection.register_forward_pre_hook(lambda _, args: (torch.zeros_like(args[0]), *args[1:]))
        try:
            return self.again(torch.zeros_like(self.entered), live)
        finally:
            hook.remove()


def _seen(layers: Sequence[nn.Module], run: Callable[[], object]) -> list[_Seen]:
    seen = [_Seen(module=layer) for layer in layers]
    with ExitStack() as stack:
        for each in seen:
            enter = each.module.register_forward_pre_hook(partial(_entered, each.calls), with_kwargs=True)
            stack.callback(enter.remove)
            stack.callback(each.module.register_forward_hook(partial(_gave, each.gave)).remove)
            for part in each.module.children():
                if next(part.parameters(), None) is not None:
                    each.parts[part] = []
                    stack.callback(part.register_forward_hook(partial(_gave, each.parts[part])).remove)
                    stack.callback(part.register_forward_hook(partial(_ran, each.order)).remove)
        run()
    return seen


def _why_not(number: int, layer: _Seen, before: _Seen | None) -> str | None:
    if len(layer.calls) != 1:
        return f"layer {number} is run {len(layer.calls)} times"
    entered, gave = layer.entered, first_of(layer.gave[0])
    if not isinstance(entered, Tensor) or not isinstance(gave, Tensor) or entered.shape != gave.shape:
        return f"layer {number} does not give a stream of the shape that enters it"
    if before is not None and not torch.equal(entered, first_of(before.gave[0])):
        return f"what enters layer {number} is not what the layer before it gave"
    added = torch.randn(gave.shape, generator=torch.Generator().manual_seed(0)).to(gave) * gave.abs().max()
    if not _same(layer.again(added), gave + added):
        return f"layer {number} does not pass on as it is what enters it; it norms or weighs the whole stream"
    return None


def _same(one: Any, other: Tensor) -> bool:
    same_shape = isinstance(one, Tensor) and one.shape == other.shape
    return same_shape and bool((one - other).abs().max() <= _SAME * other.abs().max())


def _entered(calls: list[Any], _: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    calls.append((args, options))


def _ran(order: list[nn.Module], part: nn.Module, _: tuple[Any, ...], __: Any) -> None:
    order.append(part)


def _gave(gave: list[Any], _: nn.Module, __: tuple[Any, ...], output: Any) -> None:
    gave.append(output)
