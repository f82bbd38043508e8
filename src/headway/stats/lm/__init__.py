"""Statistics of transformers on tokens.

* `summary`: metrics without training, and all findings of this folder; `scaling`: loss against heads; `plain_curve`:
  loss against parameters; `diversity`: the relation of head diversity and loss;
* `claims`: published claims about heads; `claim_verdicts`: their verdicts; `verdicts`: all of it in words.
"""
