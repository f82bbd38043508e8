"""Text generated from a model token by token, each costing one position thanks to the cache."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from headway.errors import UserError
from headway.models.attention import KVCache
from headway.models.transformer import Transformer, check_can_write


def generate(
    model: Transformer,
    prompt_tokens: Sequence[int],
    *,
    n_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    stop: int | None = None,
) -> list[int]:
    """Return the tokens that a model writes after a prompt, without the prompt.

    Args:
        model: the model; it stays in its mode (training or evaluation), but dropout is off here.
        prompt_tokens: the tokens of the prompt, one or more.
        n_tokens: the largest number of written tokens.
        temperature: the divisor of the logits; 0 takes the likeliest token each time.
        top_k: the number of likeliest tokens to sample from; None: all.
        top_p: the total probability of the likeliest tokens to sample from, after the temperature; None: all tokens.
        seed: the random seed of a separate generator; torch's is not touched.
        stop: the token that ends the text and is not returned; None: only `n_tokens` ends it.

    Raises:
        UserError: if the model attends to the future; if the prompt is empty or has tokens outside the vocabulary; if
            prompt and n_tokens exceed the model's longest context; if temperature, top_k or top_p is invalid.

    Paper: top_p is nucleus sampling, Holtzman et al. 2020, arXiv 1904.09751.
    """
    _check(model, prompt_tokens, n_tokens, temperature, top_k, top_p)
    weight = model.embedding.weight
    random = torch.Generator().manual_seed(seed)
    # The last token that is written is never read.
    cache = KVCache(model.model, len(prompt_tokens) + n_tokens - 1, dtype=weight.dtype, device=weight.device)
    new, written = list(prompt_tokens), []
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for _ in range(n_tokens):
                stream, _ = model.hidden(torch.tensor([new], device=weight.device), cache=cache)
                logits = model.read_out(stream[:, -1:])[0, 0].float().cpu()
                token = choose(logits, temperature=temperature, top_k=top_k, top_p=top_p, random=random)
                if token == stop:
                    break
                written.append(token)
                new = [token]
    finally:
        model.train(training)
    return written


def choose(
    logits: Float[Tensor, " vocab"],
    *,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    random: torch.Generator,
) -> int:
    """Draw a token from softmax(logits / temperature), among the likeliest k, then those of joint probability p."""
    cooled = logits / temperature if temperature else logits
    if temperature == 0 or not cooled.isfinite().all():  # the temperature is so low that logits overflow
        return int(logits.argmax())
    if top_k is None and top_p is None:
        return int(torch.multinomial(cooled.softmax(0), 1, generator=random))
    likeliest, tokens = cooled.topk(min(top_k or len(logits), len(logits)))
    shares = likeliest.softmax(0)
    if top_p is not None:
        # The token that crosses top_p is still in; the likeliest one always is.
        within = shares.cumsum(0) - shares < top_p
        within[0] = True
        shares = shares.where(within, 0)
    return int(tokens[torch.multinomial(shares, 1, generator=random)])


def _check(
    model: Transformer, prompt: Sequence[int], n_tokens: int, temperature: float, top_k: int | None, top_p: float | None
) -> None:
    check_can_write(model.model)
    if not prompt:
        raise UserError("an empty prompt was given; give at least one token, such as the end-of-text token")
    outside = [token for token in prompt if not 0 <= token < model.vocab_size]
    if outside:
        raise UserError(
            f"the prompt has token {outside[0]}, but the vocabulary ends at {model.vocab_size - 1}; "
            "use the tokenizer that the model was trained with"
        )
    if n_tokens < 1:
        raise UserError(f"n_tokens {n_tokens} was given; give 1 or more")
    longest = model.model.n_positions
    if len(prompt) >= longest:
        raise UserError(
            f"the prompt has {len(prompt)} tokens, but the model's longest text is {longest} (n_positions); give a "
            f"prompt of {longest - 1} or fewer"
        )
    if len(prompt) + n_tokens > longest:
        raise UserError(
            f"{len(prompt)} tokens of the prompt and {n_tokens} more are {len(prompt) + n_tokens}, but the model takes "
            f"{longest} (n_positions); ask for {longest - len(prompt)} tokens or fewer"
        )
    if not temperature >= 0:
        raise UserError(f"temperature {temperature} was given; give 0 (always the likeliest token) or more")
    if top_k is not None and top_k < 1:
        raise UserError(f"top_k {top_k} was given; give 1 or more, or None for all tokens")
    if top_p is not None and not 0 < top_p <= 1:
        raise UserError(f"top_p {top_p} was given; give a probability above 0 and up to 1, or None for all tokens")
