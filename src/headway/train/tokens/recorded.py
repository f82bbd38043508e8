"""Train: the losses and gradients of many models of one shape: recorded once as a list of operations, then replayed.

For small models most of a step is spent on finding out which operations to do: through modules, vmap and autograd.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.func import functional_call, vmap
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

Step = Callable[[list[Tensor], Tensor, Tensor], list[Tensor]]
"""The loss of each model and its gradients, from what the models are, read and are asked."""

_ATEN = torch.ops.aten
_VIEWS = {
    _ATEN.view.default,
    _ATEN._unsafe_view.default,
    _ATEN.expand.default,
    _ATEN.slice.Tensor,
    _ATEN.alias.default,
    _ATEN.detach.default,
}


class RecordedStep:
    """Losses and gradients of models side by side.

    Law: a replay has the bits of what is recorded.
    """

    def __init__(self, loss: nn.Module, leaves: Mapping[str, Tensor], last: int | None):
        """Say of what.

        Args:
            loss: a module that gives the loss of inputs and targets; its own parameters are stood in for.
            leaves: by its names of parameters, those of all models, a row each.
            last: how many of the last positions are asked; None: any may be.
        """
        self._loss, self._leaves, self._last = loss, dict(leaves), last
        self._steps: dict[object, Step] = {}

    def step(self, inputs: Tensor, targets: Tensor, dim: int | None) -> tuple[Tensor, list[Tensor]]:
        """The losses, one for each model, and the gradients of the leaves.

        Args:
            inputs: what the models read.
            targets: what they are asked.
            dim: the axis along which both differ from model to model; None: all read the same.
        """
        key, leaves = (inputs.shape, inputs.dtype, targets.shape, dim), list(self._leaves.values())
        if key not in self._steps:
            self._steps[key] = self._recorded(leaves, inputs, targets, dim)
        with torch.no_grad():
            losses, *grads = self._steps[key](leaves, inputs, targets)
        return losses, grads

    def _recorded(self, leaves: list[Tensor], inputs: Tensor, targets: Tensor, dim: int | None) -> Step:
        def loss(parameters: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
            return functional_call(self._loss, parameters, (inputs, targets, self._last))

        def step(leaves: list[Tensor], inputs: Tensor, targets: Tensor) -> list[Tensor]:
            parameters = dict(zip(self._leaves, leaves, strict=True))
            losses = vmap(loss, in_dims=(0, dim, dim))(parameters, inputs, targets)
            return [losses.detach(), *torch.autograd.grad(losses.sum(), leaves)]

        return tidied(make_fx(step)(leaves, inputs, targets))


def tidied(program: GraphModule) -> GraphModule:
    """The same without what does nothing, is done twice, or comes out the same in every step: a third of the list."""
    found = [node for node in program.graph.nodes if node.op == "call_function"]
    if any(isinstance(node.target, OpOverload) and node.target._schema.is_mutable for node in found):
        return program  # what looks the same may then be something else
    constant = {node for node in program.graph.nodes if node.op == "get_attr"}
    first: dict[str, Node] = {}
    for node in found:
        if _does_nothing(node):
            node.replace_all_uses_with(node.all_input_nodes[0])
            continue
        same = first.setdefault(f"{node.target} {node.args} {node.kwargs}", node)
        if same is not node:
            node.replace_all_uses_with(same)
        elif constant.issuperset(node.all_input_nodes):
            constant.add(node)
    for node in found:
        if node in constant and not constant.issuperset(node.users):
            _keep(program, node)
    program.graph.eliminate_dead_code()
    program.recompile()
    return program


def _does_nothing(node: Node) -> bool:
    """Whether what comes out lies in memory as what goes in."""
    if node.target not in _VIEWS:
        return False
    before, after = (of.meta.get("tensor_meta") for of in (node.all_input_nodes[0], node))
    return before is not None and all(
        getattr(before, part) == getattr(after, part) for part in ("shape", "stride", "dtype")
    )


def _keep(program: GraphModule, node: Node) -> None:
    """Work a constant out now."""

    def value(of: Node) -> Any:
        if of.op == "get_attr":
            return getattr(program, str(of.target))
        assert callable(of.target)
        return of.target(*map_arg(of.args, value), **map_arg(of.kwargs, value))

    name = f"kept_{node.name}"
    program.register_buffer(name, value(node))
    with program.graph.inserting_before(node):
        node.replace_all_uses_with(program.graph.get_attr(name))
