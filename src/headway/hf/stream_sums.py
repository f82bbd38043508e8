"""Layers of a decoder of transformers that only add to one stream, so that direct paths can be measured.

Then whatever a head writes reaches every later layer unchanged. That is tested, not read off a name: while the parts of
a layer keep their outputs, anything added to the layer's input, or taken from its heads' outputs, must come out of it.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.hf.recorder import CACHES


@dataclass(frozen=True, kw_only=True)
class StreamSums:
    """The finding whether heads' outputs are added to one stream and reach every later layer unchanged."""

    why_not: str | None
    """The reason if they are not; None if they are."""
    norms: Mapping[int, nn.Module]
    """The norm, by layer, that the heads' output goes through before it is added, if there is one."""


SAME = 1e-5
"""The tolerance as a share of the stream's largest entry, for single precision."""


def stream_sums(
    layers: Sequence[nn.Module],
    run: Callable[[], object],
    written: Mapping[int, tuple[nn.Module, Float[Tensor, "batch pos d_model"]]],
) -> StreamSums:
    """Return whether the stream is a sum to which layers only add, and if not, why.

    Args:
        layers: the layers of the model, in their order.
        run: the function that makes a forward pass.
        written: the projection of the heads' contexts and its traced output to the stream, without biases, by layer.
    """
    why = None if layers else "its layers are not in one list"
    norms: dict[int, nn.Module] = {}
    seen = _seen(layers, run)
    for number, layer in enumerate(seen):
        why = why or _why_not(number, layer, seen[number - 1] if number else None)
        if why is None and number in written and not layer.adds(*written[number]):
            norm = layer.norm_before_sum(written[number][0])
            if norm is None:
                why = f"layer {number} transforms them before adding them to the stream"
            else:
                norms[number] = norm
    return StreamSums(why_not=why, norms=norms)


def first_of(given: Any) -> Any:
    """Return the stream in a layer's output or arguments: the first of them."""
    return given[0] if isinstance(given, tuple) and given else given


def with_added(
    added: Tensor, _: nn.Module, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a layer's call with a tensor added to the stream, as a forward pre-hook."""
    if args:
        return (args[0] + added, *args[1:]), options
    name = next(iter(options))
    return args, {**options, name: options[name] + added}


@contextmanager
def answering(module: nn.Module, answer: Callable[[], Any]) -> Iterator[None]:
    """Make a module return a given answer within a block, whatever its arguments."""
    before = vars(module).get("forward")
    given: Callable[..., Any] = lambda *_, **__: answer()  # noqa: E731
    module.forward = given
    try:
        yield
    finally:
        del module.forward
        if before is not None:
            module.forward = before


@dataclass(kw_only=True)
class _Seen:
    """A layer in a pass: its arguments, its output, and the output of each of its parts that has weights."""

    module: nn.Module
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    gave: list[Any] = field(default_factory=list)
    parts: dict[nn.Module, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """The outputs of the parts, in the order in which they first ran."""

    @property
    def entered(self) -> Any:
        """The stream before the layer."""
        args, options = self.calls[0]
        return args[0] if args else next(iter(options.values()), None)

    def again(self, added: Tensor, live: Collection[nn.Module] = ()) -> Any:
        """Return the layer's output with something added before it, while most parts keep their outputs."""
        args, options = with_added(added, self.module, *self.calls[0])
        with ExitStack() as stack:
            for part, outputs in self.parts.items():
                if part not in live:
                    stack.enter_context(answering(part, partial(next, iter(outputs))))
            return first_of(self.module(*args, **options))

    def adds(self, projection: nn.Module, written: Tensor) -> bool:
        """Return whether removing the heads' output from a layer changes its output by exactly that."""
        return same(self._without_heads(projection, self._holding(projection)), first_of(self.gave[0]) - written)

    def norm_before_sum(self, projection: nn.Module) -> nn.Module | None:
        """Return the norm that runs after the heads, if its output is what is added to the stream."""
        holding, gave = self._holding(projection), list[Tensor]()
        norm = next((part for before, part in pairwise(self.parts) if before in holding), None)
        if norm is None or len(self.parts[norm]) != 1 or not isinstance(self.parts[norm][0], Tensor):
            return None
        with norm.register_forward_hook(partial(keep_output, gave)):
            left = self._without_heads(projection, [*holding, norm])
        return norm if same(left, first_of(self.gave[0]) + gave[0] - self.parts[norm][0]) else None

    def _holding(self, projection: nn.Module) -> list[nn.Module]:
        return [part for part in self.parts if projection in set(part.modules())]

    def _without_heads(self, projection: nn.Module, live: Collection[nn.Module]) -> Any:
        with projection.register_forward_pre_hook(lambda _, args: (torch.zeros_like(args[0]), *args[1:])):
            return self.again(torch.zeros_like(self.entered), live)


def _seen(layers: Sequence[nn.Module], run: Callable[[], object]) -> list[_Seen]:
    seen = [_Seen(module=layer) for layer in layers]
    with ExitStack() as stack:
        for each in seen:
            enter = partial(_entered, each.calls)
            stack.enter_context(each.module.register_forward_pre_hook(enter, with_kwargs=True))
            stack.enter_context(each.module.register_forward_hook(partial(keep_output, each.gave)))
            for part in each.module.children():
                if next(part.parameters(), None) is not None:
                    stack.enter_context(part.register_forward_hook(partial(_part_gave, each.parts)))
        run()
    return seen


def _why_not(number: int, layer: _Seen, before: _Seen | None) -> str | None:
    if len(layer.calls) != 1:
        return f"layer {number} is run {len(layer.calls)} times"
    entered, gave = layer.entered, first_of(layer.gave[0])
    if not isinstance(entered, Tensor) or not isinstance(gave, Tensor) or entered.shape != gave.shape:
        return f"the output of layer {number} does not have the shape of its input"
    if before is not None and not torch.equal(entered, first_of(before.gave[0])):
        return f"the input of layer {number} is not the output of the layer before it"
    added = torch.randn(gave.shape, generator=torch.Generator().manual_seed(0)).to(gave) * gave.abs().max()
    if not same(layer.again(added), gave + added):
        return f"layer {number} does not pass its input on unchanged; it normalises or scales the whole stream"
    return None


def same(one: Any, other: Tensor) -> bool:
    """Return whether two tensors are the same but for rounding in single precision."""
    same_shape = isinstance(one, Tensor) and one.shape == other.shape
    return same_shape and bool((one - other).abs().max() <= SAME * other.abs().max())


def _entered(calls: list[Any], _: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    # A cache holds the keys of this call: the layer would read them twice when it is called again.
    calls.append((args, {name: None if name in CACHES else value for name, value in options.items()}))


def _part_gave(parts: dict[nn.Module, list[Any]], part: nn.Module, _: tuple[Any, ...], output: Any) -> None:
    parts[part].append(output)


def keep_output(outputs: list[Any], _: nn.Module, __: tuple[Any, ...], output: Any) -> None:
    """Append a module's output to a list, as a forward hook."""
    outputs.append(output)
