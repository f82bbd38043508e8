"""Finished: models that somebody has trained, opened and measured, whoever wrote them.

* `model_folder`: what a path is; `opening`: the model behind it;
* `opened`: that model, ready to be given a text; `encoder`: how the text becomes its tokens;
* `measurable`: whether its heads can be measured, and how much is read for it; `own_text`: of which text where
  nobody says, or of which examples of a task; `to_read`: these as sequences; `two_texts`: a text and another one;
* `in_memory`: a model that is no path; `text_loss`: how well it predicts what it reads;
* `xray`: what every head of it does on a text, `of_few`: on few tokens, and `xray_notes`: what limits that; `look`: the
  same for the eye, `looked_at`: which models and numbers that takes, `shown_patterns`: patterns that fit,
  `shown_tokens`: their tokens, `kept_steps`: the same while it trained, `page_room`: how much fits, `token_words`: what
  is written for a token;
* `interventions`: a model of which heads can be taken away, checked; `batched_text`: a text that it reads without
  some, `ablate`: what it does without each of them;
* `patch`: what its heads did on one text, put into a run of another, `patch_texts`: the same of texts that one writes,
  `text_pairs`: these, and the answers after them; `circuit`: how much some of them explain alone;
* `prune`: the same model without some of them, and `pass_costs`: what passes of both cost.
"""
