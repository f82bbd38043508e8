"""Compare: seeds, pairs, intervals and verdicts; a slice for each laboratory, `icl` and `tokens`.

* `results`: all that a directory says, as one value; `laboratory`: what a laboratory adds to it; `answer`: its
  sentences for a terminal; `reference` writes the schema of its file;
* `matches`: which arm is compared with which; `cells`, the values of a metric; `families` of them are judged together,
  by the rule `blocks` or, as before, by paired `statistics`, and of what is yes or no by `shares`; what is found is
  `evidence`;
* `comparisons` of arms, and `contrasts`, what the document asks of several at once; `rates`: each arm at its best
  learning rate; said by `verdicts` of two `sides` (`paired_verdicts` by the rule of before,
  `share_verdicts` of what is yes or no), with `notes`, and by `seed_time` what another seed costs;
* `cautions` and `trust`: what to know before any of it is believed, such as `strays`, or that answers are `doubted`;
* `simultaneous` bounds, from `sobol` points and by `roots`; `looks` says when one looks, by a `look_plan`, at which of
  the `look_levels`; `questions` that a plan asks; `unplanned` looks; `halving`: the best of many arms, and
  what was `searched` so;
* `first_schema`: files of before.
"""
