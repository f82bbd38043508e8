"""What a plugin registers, held to the laws that Headway's own things keep.

* `held`: a file, and what of it breaks which law; `tried`: trying code of the user's, whatever it does;
* `tasks`: tasks and corpora; `choices`: attentions and families; `heads`: metrics of heads and regularisers; `runs`:
  metrics of runs, and callbacks.
"""
