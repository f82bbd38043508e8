"""Heads: how much of what earlier heads write later heads read, for all pairs of heads, by the weights alone.

What two circuits have in common by chance is known. With P = W^T W / |W|^2 of what is written, Q likewise of what reads
it, and a random turn U of the D dimensions between them, the squared composition is tr(P U Q U^T). Its mean is 1 / D. A
symmetric matrix without trace turns within a space of (D - 1)(D + 2) / 2 dimensions, in all of them alike, so its
variance is 2 (tr P^2 - 1/D)(tr Q^2 - 1/D) / ((D - 1)(D + 2)). For one direction each it is exactly a beta distribution,
and for more of them nearly; far out the strongest direction decides, so it is taken with the largest eigenvalues in
place of tr P^2 and tr Q^2, which is never too narrow.
"""

from itertools import combinations

import numpy as np
import torch
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
    chances = {kind: np.full((len(heads), len(heads)), np.nan) for kind in "qkv"}
    width = seen_width(model)
    writers = [here.ov.as_writer() for here in found]
    # What reads is a writer seen from the other side.
    readers = [{kind: circuit.transposed().as_writer() for kind, circuit in _read_by(here).items()} for here in found]
    strongest_written = [_strongest(writer) for writer in writers]
    strongest_read = [{kind: _strongest(reader) for kind, reader in of_layer.items()} for of_layer in readers]
    for earlier, later in combinations(range(len(found)), 2):
        here = slice(first[earlier], first[earlier + 1]), slice(first[later], first[later + 1])
        for kind, reader in readers[later].items():
            tables[kind][here] = _ratios(writers[earlier], reader).numpy()
            of_reader = strongest_read[later][kind]
            chances[kind][here] = chance_of(tables[kind][here], strongest_written[earlier], of_reader, width)
    return Composition(heads=heads, **tables, null=width**-0.5, chances=chances)


def chance_of(
    found: Float[np.ndarray, "earlier later"],
    written: Float[np.ndarray, " earlier"],
    read: Float[np.ndarray, " later"],
    width: int,
) -> Float[np.ndarray, "earlier later"]:
    """How likely circuits turned at random compose at least so much; 1 where nothing is known.

    Args:
        found: the compositions.
        written: of each earlier circuit the largest share of one direction in its squared size.
        read: of each later one.
        width: dimensions of the stream.
    """
    from scipy.special import betaincc

    if width < 3:
        return np.ones_like(found)
    mean = 1 / width
    excess = np.outer(np.maximum(written - mean, 1e-6), np.maximum(read - mean, 1e-6))
    variance = 2 * excess / ((width - 1) * (width + 2))
    size = mean * (1 - mean) / variance - 1
    chances = betaincc(mean * size, (1 - mean) * size, np.clip(np.nan_to_num(found), 0, 1) ** 2)
    return np.where(np.isfinite(found), np.nan_to_num(chances, nan=1.0), np.nan)


def _strongest(matrix: Float[Tensor, "head few d_model"]) -> Float[np.ndarray, " head"]:
    """The largest share of one direction in the squared size of each matrix; 1 for a matrix of zeros."""
    squares = torch.linalg.svdvals(matrix).square()
    whole = squares.sum(1)
    return torch.where(whole > 0, squares[:, 0] / whole, 1).numpy()


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
