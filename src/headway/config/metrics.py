"""The table of metrics of runs: name, sentence, unit and null; metrics of heads stand in `head_metrics`.

The null is the value for heads that do nothing in particular; it is None where it depends on the setting.
"""

from functools import partial
from typing import Any, Literal

from headway.config.spec import Spec

Better = Literal["lower", "higher"]


class Metric(Spec):
    """The meaning of a number in `results.json`."""

    name: str
    sentence: str
    unit: str
    better: Better | None = None
    null: float | None = None
    primary: bool = False
    """True if arms of some task are compared by this metric, so that sentences need not name it."""


_WAYS = {
    "zero": "set to zero",
    "mean": "replaced by means over other text",
    "resample": "replaced by contexts from other text",
}
"""The replacements of a head's context when the head is ablated."""

YES_OR_NO = "yes or no"
"""The unit of a metric that is 1 or 0 for a run; arms are compared by the share of their seeds."""


def _metric(unit: str, name: str, sentence: str, better: Better | None = None, **more: Any) -> Metric:
    return Metric(name=name, unit=unit, sentence=sentence, better=better, **more)


_squared, _nats, _fraction = (partial(_metric, unit) for unit in ("y squared", "nats per token", "fraction"))

# fmt: off
_ALL = (
    _squared("eval_mse", "mean squared error on the fixed evaluation prompts at the training length", "lower",
        primary=True),
    _squared("eval_mse_se", "standard error of eval_mse over the prompts"),
    _squared("eval_mse_adjusted",
        "evaluation MSE, adjusted for the error of the best debiased gradient step on the same prompts", "lower"),
    _squared("eval_mse_adjusted_se", "standard error of eval_mse_adjusted"),
    _metric("ratio", "ratio_to_debiased_gd",
        "evaluation MSE divided by the MSE of the best debiased gradient step, preconditioned if x is "
        "correlated", "lower",
        null=1.0),
    _squared("kernel_mse", "mean squared error of the kernel estimator with the model's w and mu", "lower"),
    _squared("reduction_error", "mean squared difference between the model and its kernel estimator", "lower",
        null=0.0),
    _squared("train_mse", "mean training loss since the last logged step", "lower"),
    _metric("1", "w", "mean diagonal entry of the x block of each head's QK circuit", null=0.0),
    _metric("1", "mu", "the y entry of each head's OV circuit", null=0.0),
    _metric("1", "diagonal_variance",
        "population variance of the diagonal entries whose mean is w, for each head", null=0.0),
    _metric("1", "largest_off_diagonal",
        "largest absolute entry off the diagonal in the x block of each head's QK circuit", null=0.0),
    _metric("1", "largest_y_row",
        "largest absolute entry in the y row of each head's QK circuit, through which y changes a pair's score",
        null=0.0),
    _metric("1", "largest_other_ov", "largest absolute entry of each head's OV circuit other than mu", null=0.0),
    _metric("1", "mu_dot_w", "sum of mu times w over heads: the step size of the learned estimator", null=0.0),
    _metric("1", "sum_mu", "sum of mu over heads (if it is 0, the estimator is debiased)", null=0.0),
    _nats("eval_loss_nats", "mean loss over all predicted tokens of the fixed held-out sequences", "lower",
        primary=True),
    _metric("bits per byte", "eval_bits_per_byte",
        "evaluation loss in bits per byte of the predicted text, to compare tokenizers (missing if tokens restore "
        "less than 99 % of the text)", "lower", primary=True),
    _metric(YES_OR_NO, "solved",
        "share of runs that solve the task: all answers correct, or a share above the task's threshold", "higher",
        primary=True),
    _fraction("accuracy", "share of correct answers", "higher", primary=True),
    _fraction("accuracy_by_kind", "accuracy for each kind of question, such as each number of hops"),
    _fraction("accuracy_by_length",
        "accuracy by the number of tokens before the question: 1, 2, 3 to 4, 5 to 8, and so on by powers of two"),
    _fraction("nmse", "mean squared error divided by the variance of the answers", "lower", primary=True),
    _nats("train_loss_nats", "mean training loss since the last logged step", "lower"),
    _nats("unigram_loss_nats",
        "held-out loss of a model that knows only the frequencies of single tokens in the training text"),
    _nats("bigram_loss_nats",
        "held-out loss of a model that knows only the smoothed frequencies of pairs of tokens in the training text"),
    _nats("entropy_nats",
        "mean -log probability of the held-out stories under their grammar: the lowest loss that a model can reach"),
    _fraction("lane_share",
        "share of the residual stream's squared norm in the data lane, before each layer and before the final norm"),
    _fraction("repetition",
        "share of tokens in each block of 100 that complete a 4-gram seen earlier in the sample", null=0.0),
    _fraction("unused_token_share", "share of the sampled tokens that the training text never uses", null=0.0),
    _fraction("text_kept", "share of the held-out text that can be restored from its tokens"),
    *(
        metric
        for way, said in _WAYS.items()
        for metric in (
            _nats(f"{way}_ablation_largest_nats",
                f"rise of the loss when the head that matters most is ablated (context {said})", null=0.0),
            _nats(f"{way}_ablation_all_nats", f"rise of the loss when all heads are ablated (contexts {said})",
                null=0.0),
            _fraction(f"{way}_ablation_share_that_adds_up",
                f"sum of the single effects of heads, divided by their joint effect (contexts {said})", null=1.0),
        )
    ),
    _fraction("idle_head_share",
        "share of heads whose mean ablation raises the loss by less than 0.01 nats per token"),
    _metric("heads", "half_effect_heads",
        "smallest number of heads whose single effects add up to half of the sum over all heads (mean ablation)"),
    _metric("heads", "n_heads", "number of heads in each layer"),
    _metric("heads", "total_heads", "number of query heads in all layers"),
    _metric("layers", "n_layers", "number of layers"),
    _metric("numbers", "n_parameters", "number of trained parameters"),
    _metric("tokens", "tokens", "tokens that the model was trained on"),
    # No better: runs of a sweep share the machine, and are no measurement of time.
    _metric("tokens/s", "tokens_per_s", "training tokens per second (evaluation not counted)"),
    _metric("1/s", "steps_per_s", "training steps per second (evaluation not counted)", "higher"),
    _metric("s", "processor_s",
        "seconds of processor time over all threads (runs that are trained together share it)", "lower"),
    _metric("s", "device_s", "seconds of training on a GPU (runs that are trained together share them)", "lower"),
    _metric("s", "wall_s", "seconds from start to end (interruptions not counted)", "lower"),
    _metric("bytes", "peak_memory_bytes", "largest resident memory of the run's process", "lower"),
    _metric("bytes", "memory_bytes",
        "largest memory of the process above its memory before the model was built", "lower"),
)
# fmt: on

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}


def metric_name(metric: str) -> str:
    """Return the name of a run's or head's metric in figures, tables and sentences; units stand beside it.

    Examples:
        >>> metric_name("query_cka_centred"), metric_name("ov_effective_rank"), metric_name("eval_loss_nats")
        ('centred query CKA', 'OV effective rank', 'evaluation loss')
        >>> metric_name("query_orthogonality_raw"), metric_name("attention_variance_published")
        ('query orthogonality, raw', 'attention variance as published')
    """
    name = metric.removesuffix("_nats")
    for ending, said in (("_raw", ", raw"), ("_published", " as published")):
        name = name.removesuffix(ending) + said if name.endswith(ending) else name
    name = f"centred_{name.removesuffix('_centred')}" if name.endswith("_centred") else name
    return " ".join(_WORDS.get(word, word) for word in name.replace("_", " ").split(" "))


_WORDS = {"cka": "CKA", "qk": "QK", "ov": "OV", "mse": "MSE", "nmse": "normalised MSE", "gd": "GD"}
_WORDS |= {"eval": "evaluation", "michel": "Michel's"}
