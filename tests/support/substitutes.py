"""What stands in for heads, from one whole pass of the other text; a text in batches must equal it."""

from headway.causal.substitutes import contexts_of, donors_of


def substitutes(model, inputs, other, *, mean_over="positions", seed=0):
    """Return the substitutes for heads on a text, from one forward pass of another text."""
    donors = donors_of(inputs, other, seed)
    contexts = contexts_of(model, other[:, : inputs.shape[1]])
    axes = {"positions": (0, 2), "per-position": (0,)}[mean_over]
    return {
        "zero": {layer: z.new_zeros(1, 1, 1, 1) for layer, z in contexts.items()},
        "mean": {layer: z.mean(axes, keepdim=True) for layer, z in contexts.items()},
        "resample": {layer: z[list(donors)] for layer, z in contexts.items()},
    }
