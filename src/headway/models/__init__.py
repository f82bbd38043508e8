"""Transformers whose layers may have different numbers of heads, in torch.

* `transformer`: the model; `attention`, `layers`: its parts;
* `weights`: its arrays by name, how they are initialised and checked (numpy, no torch);
* `trace`: the record of every head in a forward pass; `redraw`: re-initialised heads in place of the trained ones;
* `generate`: text from a model.
"""
