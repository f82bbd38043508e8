"""Seeds, pairs, intervals and verdicts.

* `results`: all that a directory says, as one value; `laboratory`: what a laboratory adds to it: `regression`, `lm`;
  `answer`: its sentences for a terminal; `reference`: the schema of its file;
* `cells`: the values of a metric; `contrasts`: differences of arms, judged together; `evidence`: what was found;
* `blocks`, `paired`, `shares`: the tests; `simultaneous`: bounds that hold all at once;
* `sequential`: interim analyses; `questions`: what a plan asks; `best_arm`: the best of many arms;
* `learning_rates`: each arm at its best one; `verdicts`: findings in words; `notes`, `warnings`: what to know before
  any of it is believed.
"""
