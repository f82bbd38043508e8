"""Declare, transformers on tokens: what is asked, the model and how it is trained.

* `tasks`: the table of tasks; `task`: what each says of itself; `text`: the next token of a corpus;
  those whose answer is `known`: `parity`, `endpoint`, `retrieval`, `hops`, `recall`, `induction`;
* `transformer`: the model; its heads (`layout`, by hand or by `schedules`), numbers per layer (`layers`), trained
  arrays (`parameters`), published sizes (`shapes`); it `without_heads`, which go by `head_units`;
* `training`, from the beginning or from another run (`start`), `probes` of heads meanwhile, `evaluation` and samples;
  what is done to the trained model (`after`); what they cost (`budget`), the `run` of them, and which are trained
  `alone`.
"""
