"""Check: attentions and families of one's own."""

from collections.abc import Iterator

import torch

from headway.check.heads import MODEL, VOCAB, small_model
from headway.check.tried import Broken, tried
from headway.declare.laboratories import with_own_family
from headway.declare.spec import parse
from headway.declare.tokens.transformer import OWN_ATTENTIONS, OWN_FAMILIES, Gpt2, GptNeo, Llama, TransformerModel
from headway.errors import UserError

_TOLERANCE = 1e-5
_FAMILIES: dict[str, type[TransformerModel]] = {"gpt-neo": GptNeo, "gpt-2": Gpt2, "llama": Llama}


def attention(name: str) -> Iterator[str]:
    """What laws an attention breaks."""
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 6, 6, generator=random)
    seen = torch.ones(6, 6, dtype=torch.bool).tril()
    given = logits.masked_fill(~seen, -torch.inf)
    try:
        scores = tried(lambda: OWN_ATTENTIONS[name](given.clone()), "changing scores", _equal)
    except Broken as error:
        yield str(error)
        return
    if scores.shape != given.shape:
        yield f"of scores {tuple(given.shape)} it gave {tuple(scores.shape)}; give one for each query and key"
        return
    if not (scores[..., ~seen] == -torch.inf).all() or not (scores > -torch.inf).any(3).all() or scores.isnan().any():
        yield (
            "keys that a query does not see must keep -inf, and one that it sees a number, or its weights would not be "
            "what it sees; use torch.where on what is finite"
        )
        return
    yield from _of_models(MODEL.model_copy(update={"attention": name}))


def _of_models(model: TransformerModel) -> Iterator[str]:
    module = small_model(model)
    tokens = torch.randint(0, VOCAB, (2, 12), generator=torch.Generator().manual_seed(1))
    other = tokens.clone()
    other[:, 8:] = (other[:, 8:] + 1) % VOCAB
    with torch.no_grad():
        if not torch.allclose(module(tokens)[0][:, :8], module(other)[0][:, :8], atol=_TOLERANCE):
            yield "later tokens change what is said before them; let the scores of a query depend on what it sees alone"
        trace = module.trace(tokens)
        for found in trace.attentions:
            contexts = found.patterns() @ found.v[:, list(found.kv_of)]
            # Rounding of what has one size: sharp weights round more than 1e-5 of what is near 0.
            if (contexts - found.z).abs().max() > _TOLERANCE * found.z.abs().max().clamp(min=1):
                yield "its weights in a trace are not those that made the contexts; make it a function of scores alone"
                break
    module.loss(tokens[:, :-1], tokens[:, 1:], None).backward()
    for key, parameter in module.named_parameters():
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            yield f"the gradient of {key} is not finite; see that nothing is divided by 0, and no -inf is multiplied"
            return
        if key.endswith("attention.q.weight") and (parameter.grad is None or not parameter.grad.any()):
            yield f"no gradient comes back to {key}, so that queries would not learn; use torch operations alone"
            return


def family(name: str) -> Iterator[str]:
    """Whether a family is a model once its sizes are given."""
    sizes = {"d_model": 24, "n_layers": 2, "n_heads": 2}
    content = with_own_family({"model": {**sizes, "family": name, **OWN_FAMILIES[name]} | {"family": name}})["model"]
    try:
        parse(_FAMILIES[content["family"]], content)
    except UserError as error:
        yield f"with two layers of two heads it is no model: {error}"


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(torch.equal(one.nan_to_num(7.0), other.nan_to_num(7.0)))
