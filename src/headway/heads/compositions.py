"""Heads: how much of what earlier heads write later heads read, for all pairs of heads, by the weights alone."""

from itertools import combinations

import numpy as np
from jaxtyping import Float
from torch import Tensor

from headway.heads.circuits import HeadCircuits, circuits, seen_width
from headway.heads.factored import Factored
from headway.heads.scores import Composition
from headway.model.transformer import Transformer


def compositions(model: Transformer) -> Composition:
    """Q-, K- and V-composition between all pairs of heads in different layers.

    Raises:
        UserError: naming the layer whose weights hold NaN or infinity.
    """
    found = circuits(model)
    heads = tuple((here.name, head) for here in found for head in range(len(here.ov.left)))
    first = np.cumsum([0, *(len(here.ov.left) for here in found)])
    tables = {kind: np.full((len(heads), len(heads)), np.nan) for kind in "qkv"}
    writers = [here.ov.as_writer() for here in found]
    # What reads is a writer seen from the other side.
    readers = [{kind: circuit.transposed().as_writer() for kind, circuit in _read_by(here).items()} for here in found]
    for earlier, later in combinations(range(len(found)), 2):
        here = slice(first[earlier], first[earlier + 1]), slice(first[later], first[later + 1])
        for kind, reader in readers[later].items():
            tables[kind][here] = _ratios(writers[earlier], reader).numpy()
    return Composition(heads=heads, **tables, null=seen_width(model) ** -0.5)


def _read_by(here: HeadCircuits) -> dict[str, Factored]:
    return {"q": here.qk, "k": here.qk.transposed(), "v": here.ov}


def _ratios(
    writer: Float[Tensor, "earlier few d_model"], reader: Float[Tensor, "later some d_model"]
) -> Float[Tensor, "earlier later"]:
    """||W_i R_j^T|| / (||W_i|| ||R_j||) for all pairs, by one product of the heads' matrices stacked."""
    products = writer.flatten(0, 1) @ reader.flatten(0, 1).T
    cores = products.view(*writer.shape[:2], *reader.shape[:2])
    norms = cores.square().sum((1, 3)).sqrt()
    return norms / writer.square().sum((1, 2)).sqrt()[:, None] / reader.square().sum((1, 2)).sqrt()
