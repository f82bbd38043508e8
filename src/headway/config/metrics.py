"""The table of metrics of runs: name, sentence, unit and null; metrics of heads stand in `head_metrics`.

The null is the value when nothing is going on; it is None where it depends on the setting.
"""

from functools import partial
from typing import Literal

from headway.config.spec import Spec


class Metric(Spec):
    """The meaning of a number in `results.json`."""

    name: str
    sentence: str
    unit: str
    better: Literal["lower", "higher"] | None = None
    null: float | None = None
    primary: bool = False
    """True if arms of some task are compared by this metric, so that sentences need not name it."""


_WAYS = {"zero": "set to zero", "mean": "at its mean over other text", "resample": "taken from other text"}
"""The replacements of a head's context when the head is ablated."""

YES_OR_NO = "yes or no"
"""The unit of a metric that is 1 or 0 for a run; arms are compared by the share of their seeds."""


_squared = partial(Metric, unit="y squared")
_nats = partial(Metric, unit="nats per token")
_fraction = partial(Metric, unit="fraction")

_ALL = (
    _squared(
        name="eval_mse",
        sentence="mean squared error on the fixed evaluation prompts at the training length",
        better="lower",
        primary=True,
    ),
    _squared(name="eval_mse_se", sentence="standard error of eval_mse over the prompts"),
    _squared(
        name="eval_mse_adjusted",
        sentence="eval_mse with that debiased gradient step on the same prompts as control variate",
        better="lower",
    ),
    _squared(name="eval_mse_adjusted_se", sentence="standard error of eval_mse_adjusted"),
    Metric(
        name="ratio_to_debiased_gd",
        sentence="eval_mse over that of the best debiased gradient step, preconditioned where x is correlated",
        unit="ratio",
        better="lower",
        null=1.0,
    ),
    _squared(
        name="kernel_mse",
        sentence="mean squared error of the kernel estimator with the model's w and mu",
        better="lower",
    ),
    _squared(
        name="reduction_error",
        sentence="mean squared difference between the model and its kernel estimator",
        better="lower",
        null=0.0,
    ),
    _squared(name="train_mse", sentence="mean training loss since the last logged step", better="lower"),
    Metric(name="w", sentence="of each head, the mean diagonal of the x block of its QK circuit", unit="1", null=0.0),
    Metric(name="mu", sentence="of each head, the y entry of its OV circuit", unit="1", null=0.0),
    Metric(
        name="mu_dot_w", sentence="sum over heads of mu w: the step size of the learned estimator", unit="1", null=0.0
    ),
    Metric(name="sum_mu", sentence="sum over heads of mu; zero makes the estimator debiased", unit="1", null=0.0),
    _nats(
        name="eval_loss_nats",
        sentence="mean loss of the fixed held-out sequences, over every token that is predicted",
        better="lower",
        primary=True,
    ),
    Metric(
        name="eval_bits_per_byte",
        sentence="the same loss in bits per byte of the text that was predicted, which tokenizers can be compared by; "
        "none where tokens give back less than 99 % of the text",
        unit="bits per byte",
        better="lower",
        primary=True,
    ),
    Metric(
        name="solved",
        sentence="share of runs that solve the task: every input right, or more than a share that the task declares",
        unit=YES_OR_NO,
        better="higher",
        primary=True,
    ),
    _fraction(
        name="accuracy",
        sentence="share of right answers over what is asked of the model",
        better="higher",
        primary=True,
    ),
    _fraction(name="accuracy_by_kind", sentence="the same for each kind of question, such as each number of hops"),
    _fraction(
        name="accuracy_by_length",
        sentence="the same by the tokens read before it is asked: 1, 2, 3 to 4, 5 to 8, and so on by powers of two",
    ),
    _fraction(
        name="nmse", sentence="mean squared error over the variance of what is to be said", better="lower", primary=True
    ),
    _nats(name="train_loss_nats", sentence="mean training loss since the last logged step", better="lower"),
    _nats(name="unigram_loss_nats", sentence="held-out loss of the frequencies of single tokens in the training text"),
    _nats(
        name="bigram_loss_nats",
        sentence="held-out loss of the frequencies of pairs of tokens in the training text, smoothed",
    ),
    _nats(
        name="entropy_nats",
        sentence="mean -log probability of the held-out stories under the grammar that wrote them: no model gets below",
    ),
    _fraction(
        name="lane_share",
        sentence="share of the stream's squared norm in the data lane, before each layer and before the final norm",
    ),
    _fraction(
        name="repetition",
        sentence="of each 100 tokens of a sample, the share whose last four tokens stood earlier in the sample",
        null=0.0,
    ),
    _fraction(
        name="unused_token_share", sentence="share of the sampled tokens that the training text never uses", null=0.0
    ),
    _fraction(name="text_kept", sentence="share of the held-out text that its tokens give back"),
    *(
        metric
        for way, said in _WAYS.items()
        for metric in (
            _nats(
                name=f"{way}_ablation_largest_nats",
                sentence=f"what the loss rises by without the head that matters most, its context {said}",
                null=0.0,
            ),
            _nats(
                name=f"{way}_ablation_all_nats",
                sentence=f"what the loss rises by without any head, their contexts {said}",
                null=0.0,
            ),
            _fraction(
                name=f"{way}_ablation_share_that_adds_up",
                sentence=f"single effects of heads, summed, over the effect of all together, contexts {said}",
                null=1.0,
            ),
        )
    ),
    _fraction(
        name="idle_head_share",
        sentence="share of the heads without which, at their mean, the loss rises by less than .01 nats per token",
    ),
    Metric(
        name="half_effect_heads",
        sentence="the fewest heads that have half of all single effects, at their mean",
        unit="heads",
    ),
    Metric(name="n_heads", sentence="heads in each layer", unit="heads"),
    Metric(name="total_heads", sentence="query heads of all layers", unit="heads"),
    Metric(name="n_layers", sentence="layers", unit="layers"),
    Metric(name="n_parameters", sentence="trained numbers", unit="numbers"),
    Metric(name="tokens", sentence="tokens that were trained on", unit="tokens"),
    # No better: runs of a sweep share the machine, and are no measurement of time.
    Metric(name="tokens_per_s", sentence="tokens trained on per second, evaluation not counted", unit="tokens/s"),
    Metric(
        name="steps_per_s", sentence="training steps per second, evaluation not counted", unit="1/s", better="higher"
    ),
    Metric(name="wall_s", sentence="seconds from start to end, interruptions not counted", unit="s", better="lower"),
    Metric(
        name="peak_memory_bytes", sentence="largest resident memory of the run's process", unit="bytes", better="lower"
    ),
    Metric(
        name="memory_bytes",
        sentence="largest memory above what the process held before the model was built",
        unit="bytes",
        better="lower",
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}


def metric_name(metric: str) -> str:
    """Return the name of a run's or head's metric in figures, tables and sentences; units stand beside it.

    Examples:
        >>> metric_name("query_cka_centred"), metric_name("ov_effective_rank"), metric_name("eval_loss_nats")
        ('query CKA centred', 'OV effective rank', 'evaluation loss')
        >>> metric_name("query_orthogonality_raw"), metric_name("attention_variance_published")
        ('query orthogonality, raw', 'attention variance as published')
    """
    name = metric.removesuffix("_nats")
    for ending, said in (("_raw", ", raw"), ("_published", " as published")):
        name = name.removesuffix(ending) + said if name.endswith(ending) else name
    return " ".join(_WORDS.get(word, word) for word in name.replace("_", " ").split(" "))


_WORDS = {"cka": "CKA", "qk": "QK", "ov": "OV", "mse": "MSE", "gd": "GD", "eval": "evaluation", "michel": "Michel's"}
