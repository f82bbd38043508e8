"""Train: what a language model writes, and how repetitive it is.

Papers: head-progression study (November 2024), whose samples begin well, decay within 500 tokens and loop later;
nothing was measured there.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headway import streams
from headway.data.tokens.corpus_tokens import Tokens
from headway.declare.tokens.evaluation import PROMPT, Samples
from headway.declare.tokens.run import TokensRun
from headway.errors import UserError
from headway.model.generate import generate
from headway.model.transformer import Transformer

GRAM = 4
BLOCK = 100
"""Repetition is given for each so many tokens, as the share of runs of four that stood earlier in the sample."""


def take_samples(module: Transformer, run: TokensRun, tokens: Tokens) -> tuple[dict[str, Any], ...]:
    """The texts that a run asks for, of the model as it now is, with their measures.

    The end of a text stops nothing: how a model goes on is what is measured.
    """
    wanted = run.samples
    if wanted is None:
        return ()
    prompt = prompt_tokens(wanted, tokens)
    rows = []
    for number in range(wanted.count):
        written = _write(module, prompt, wanted, run.task.n_ctx, streams.key(run.seed, "sample", number) >> 1)
        rows.append(
            {
                "prompt": "" if prompt == [tokens.end_of_text] else wanted.prompt,
                "text": tokens.tokenizer.decode(written),
                "temperature": wanted.temperature,
                "n_tokens": len(written),
                "repetition": repetition(written),
                "unused_share": float(tokens.unused[written].mean()),
            }
        )
    return tuple(rows)


def prompt_tokens(wanted: Samples, tokens: Tokens) -> list[int]:
    """The prompt's tokens; for an empty prompt the end of a text, after which one begins.

    So it is for the prompt that nobody asked for, where the tokenizer makes nothing of it, such as for ids.

    Raises:
        UserError: when the tokenizer makes nothing of the prompt.
    """
    if not wanted.prompt:
        return [tokens.end_of_text]
    prompt = tokens.tokenizer.encode(wanted.prompt)
    if not prompt and wanted.prompt == PROMPT:
        return [tokens.end_of_text]
    if not prompt:
        raise UserError(f"samples.prompt {wanted.prompt!r}: the tokenizer makes no token of it; give another")
    return prompt


def repetition(written: Sequence[int]) -> list[float]:
    """For each 100 tokens, the share whose last four tokens, their own included, stood earlier in the sample.

    Examples:
        >>> repetition([1, 2, 3, 4, 5, 1, 2, 3, 4, 9])
        [0.14285714285714285]
    """
    seen: set[tuple[int, ...]] = set()
    again: list[bool] = []
    for end in range(GRAM, len(written) + 1):
        gram = tuple(written[end - GRAM : end])
        again.append(gram in seen)
        seen.add(gram)
    # The first three tokens of a sample end no four of its own.
    blocks = [again[max(0, first - GRAM + 1) : first + BLOCK - GRAM + 1] for first in range(0, len(written), BLOCK)]
    return [float(np.mean(block)) for block in blocks if block]


def _write(module: Transformer, prompt: list[int], wanted: Samples, n_ctx: int, seed: int) -> list[int]:
    """As many tokens as are wanted; beyond the context that it was trained on, from the second half of what it has.

    Positions beyond n_ctx were never trained; text there would tell of them and not of the model.
    """
    text, portion = list(prompt[-(n_ctx - 1) :]) if n_ctx > 1 else prompt[-1:], 0
    first = len(text)
    while len(text) - first < wanted.tokens:
        known = text if len(text) < n_ctx else text[-max(1, n_ctx // 2) :]
        text += generate(
            module,
            known,
            n_tokens=min(wanted.tokens - (len(text) - first), max(1, n_ctx - len(known))),
            temperature=wanted.temperature,
            top_k=wanted.top_k,
            top_p=wanted.top_p,
            seed=(seed + portion) % 2**63,
        )
        portion += 1
    return text[first:]
