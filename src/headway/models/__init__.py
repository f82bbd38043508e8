"""Transformers whose layers may have different numbers of heads.

* `transformer`: the model; `attention`, `layers`: its parts;
* `weights`: its arrays by name, how they start and how they are checked (numpy, no torch);
* `trace`: what a recorded forward pass gives back of every head; `redraw`: re-initialised heads in their place;
* `edits`: interventions inside a forward pass; `intervene`: what they ask of a model, whoever wrote it;
* `generate`: text from a model.
"""
