"""Finished: models that somebody has trained, opened and measured, whoever wrote them.

* `model_folder`: what a path is; `opening`: the model behind it;
* `opened`: that model, ready to be given a text; `encoder`: how the text becomes its tokens;
* `xray`: what every head of it does on a text.
"""
