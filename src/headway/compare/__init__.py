"""Compare: seeds, pairs, intervals and verdicts; a slice for each laboratory, `icl` and `tokens`.

* `results`: all that a directory says, as one value; `laboratory`: what a laboratory adds to it; `answer`: its
  sentences for a terminal; `reference` writes the schema of its file;
* `matches`: which arm is compared with which; `comparisons` of them, by the paired `statistics`, in the words of
  `verdicts`; `contrasts`: what the document asks of several arms at once; `rates`: each arm at its best learning rate;
* `cautions` and `trust`: what to know before any of it is believed;
* `blocks`: contrasts judged together, with bounds that are `simultaneous`; `look_plan`: when one looks, at which of the
  `look_levels`; `looks`: the plan that a directory is judged by; `halving`: the best of many arms.
"""
