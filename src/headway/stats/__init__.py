"""Statistics of the runs: pairs of seeds, intervals, tests and verdicts.

* `results`: the content of `results.json`, as one value; `laboratory`: what each laboratory adds (`regression`, `lm`);
  `across`: the arms of two directories; `answer`: the sentences for a terminal;
* `cells`: the values of a metric; `contrasts`: differences of arms, judged together; `evidence`: values paired by
  seed, and the results of tests;
* `blocks`, `shares`, `welch`: the tests; `simultaneous`: bounds that hold for all contrasts at once;
* `sequential`: interim analyses; `learning_rates`: each arm at its best rate;
* `verdicts`: findings in words; `verdict_table`: the verdicts as CSV, LaTeX, Markdown and HTML;
* `warnings`: the caveats, each read from a `case`.
"""
