"""Heads: what the attentions of a model, and their heads, are called in figures, tables and sentences."""

import re
from collections.abc import Iterable, Mapping

from headway.declare.metrics import metric_name as metric_name

KINDS = {"encoder": "encoder", "self": "decoder", "cross": "cross"}
"""In the order in which they are shown, and what they are called beside each other."""


def row_labels(names: Iterable[str], kinds: Mapping[str, str] | None = None) -> dict[str, str]:
    """What each attention is called, in the order of figures: by kind, then as given.

    Args:
        names: of the attentions, in the order of the model.
        kinds: the kind of each: self, encoder or cross; None: all of one kind.

    Examples:
        >>> row_labels(["layers.0.attention", "layers.1.attention"])
        {'layers.0.attention': 'L0', 'layers.1.attention': 'L1'}
        >>> row_labels(["e.0", "d.0.a", "d.0.b"], {"e.0": "encoder", "d.0.a": "self", "d.0.b": "cross"})
        {'e.0': 'encoder L0', 'd.0.a': 'decoder L0', 'd.0.b': 'cross L0'}
    """
    of = {name: (kinds or {}).get(name, "self") for name in names}
    several = len(set(of.values())) > 1
    labels: dict[str, str] = {}
    for kind, word in KINDS.items():
        alike = [name for name in of if of[name] == kind]
        layers = [_layer(name) for name in alike]
        # Where names hold no number of a layer, or one twice, their places stand for it.
        known = None not in layers and len(set(layers)) == len(layers)
        for at, name in enumerate(alike):
            labels[name] = f"{word} " * several + f"L{layers[at] if known else at}"
    return labels


def head_names(label: str, n_heads: int) -> list[str]:
    """The heads of an attention.

    Examples:
        >>> head_names("L0", 2)
        ['L0H0', 'L0H1']
    """
    return [f"{label}H{head}" for head in range(n_heads)]


def _layer(name: str) -> int | None:
    """The first number in the path of a module: that of its layer."""
    found = re.search(r"(?:^|\.)(\d+)(?:\.|$)", name)
    return int(found[1]) if found else None
