"""Declare: what a run of the in-context laboratory costs; see `budget.py`."""

from headway.declare.icl.model import IclModel, OneLayer
from headway.declare.icl.task import PromptEvaluation, RegressionTask
from headway.declare.icl.training import TrainingSpec


def parameters_by_part(task: RegressionTask, model: IclModel) -> dict[str, int]:
    """How many numbers are trained: Q, K, V, O, and what else there is."""
    heads, width = model.n_heads, task.d_token
    one = isinstance(model, OneLayer)
    layers = 1 if isinstance(model, OneLayer) or model.tied else model.n_layers
    square = layers * heads * width * width
    parameters = {"Q": square, "K": square, "V": square, "O": layers * heads * _rows(task, model) * width}
    if not one:
        parameters["final map"] = task.d_y * width
    if model.bias:
        parameters["biases"] = layers * (3 * heads * width + _rows(task, model)) + (0 if one else task.d_y)
    return parameters


def forward_flops(task: RegressionTask, model: IclModel) -> int:
    """Floating-point operations of a forward pass of one prompt.

    A head's work where a token looks: its row of QK, its OV, and two products of tokens per token that it sees. In
    the last layer only the query looks; below, every token does, at those before it.
    """
    width, length = task.d_token, task.n_pairs
    depth = 1 if isinstance(model, OneLayer) else model.n_layers
    looking = 1 + (depth - 1) * (length + 1)
    seen = length + (depth - 1) * (length + 1) * length // 2
    final = 0 if isinstance(model, OneLayer) else 2 * task.d_y * width
    return model.n_heads * (2 * width * (width + _rows(task, model)) * looking + 4 * width * seen) + final


def training_bytes(task: RegressionTask, model: IclModel, training: TrainingSpec) -> int:
    """Weights, gradients and optimizer state, and one batch."""
    return _state_bytes(task, model, training) + training.batch_size * _prompt_bytes(task)


def judging_bytes(task: RegressionTask, evaluation: PromptEvaluation) -> int:
    """All prompts of the largest evaluation, which are in memory at once: pairs, queries and the true coefficients.

    Of a curve also how often each prompt stands in each bootstrap resample.
    """
    coefficients = 4 * task.d_x * task.d_y
    fixed = max(evaluation.prompts, evaluation.prompts_during) * (_prompt_bytes(task) + coefficients)
    curve = evaluation.curve
    if curve is None:
        return fixed
    prompt = 4 * (curve.longest + 1) * task.d_token + coefficients
    return max(fixed, curve.prompts * (prompt + 8 * curve.resamples))


def fitting_batch(task: RegressionTask, model: IclModel, training: TrainingSpec, bytes_available: int) -> int | None:
    """The largest batch, in prompts, that would fit into so much memory; None where not even one would."""
    return max(0, bytes_available - _state_bytes(task, model, training)) // _prompt_bytes(task) or None


def _state_bytes(task: RegressionTask, model: IclModel, training: TrainingSpec) -> int:
    copies = {"sgd": 2, "adam": 4, "adamw": 4}[training.optimizer]
    return 4 * copies * sum(parameters_by_part(task, model).values())


def _prompt_bytes(task: RegressionTask) -> int:
    return 4 * (task.n_pairs + 1) * task.d_token


def _rows(task: RegressionTask, model: IclModel) -> int:
    """Rows of O: a whole token, or the outputs."""
    whole = not isinstance(model, OneLayer) or model.n_out is None
    return task.d_token if whole else task.d_y
