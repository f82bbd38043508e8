"""Models: a model of transformers in memory, read into Headway's own.

For those whose attention transformers does not open to others: GPT-Neo, and what Headway exported with its own code.
"""

import torch
from transformers import PreTrainedModel

from headway.declare.tokens.parameters import parameters_of
from headway.errors import UserError
from headway.hf.architectures import ARCHITECTURES
from headway.hf.array_names import from_folder, place_of
from headway.model.transformer import Transformer

CONVERTED = ("gpt_neo", "headway")
"""By `model_type`."""


def converted(model: PreTrainedModel) -> Transformer:
    """The same model without its read-out, in float32, on the same device and in the same mode.

    Raises:
        UserError: for a configuration that Headway's model cannot be.
    """
    architecture = ARCHITECTURES[model.config.model_type]
    try:
        # Of a tied model the read-out is no array of its own.
        declared = architecture.read({**model.config.to_dict(), "tie_word_embeddings": True})
    except UserError as error:
        raise UserError(f"{type(model).__name__} cannot be traced: {error}") from None
    body, vocab_size = model.base_model, model.get_input_embeddings().num_embeddings
    arrays, prefix = body.state_dict(), f"{model.base_model_prefix}."
    weights = {}
    for parameter in parameters_of(declared, vocab_size):
        there, _ = place_of(architecture.table, parameter.name)
        array = arrays[there.removeprefix(prefix)].detach().to("cpu", torch.float32).numpy()
        weights[parameter.name] = from_folder(architecture.table, parameter.name, array)
    return Transformer(declared, vocab_size, weights).to(model.device).train(model.training)
