"""Training of transformers on tokens.

* `laboratory`: the parts that other rooms use; `study`: a run as the loop drives it;
* `init_from`: the weights of a run that is initialised from another run;
* `loss`: the model with its loss and regularisers; `optimizer`: the optimizers and the learning-rate schedule;
* `ensemble`: many runs as one batched program;
* `evaluate`: evaluation of every task; `probes`: measurements of heads during training.
"""
