"""Every architecture of transformers that reads text, as small as its configuration allows, with random weights."""

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto

import headway
from headway.causal.checks import check_patching
from headway.causal.patch_result import PATCH_SITES
from headway.errors import UserError
from headway.hf.intervene import TheirDecoder

VOCAB_SIZE = 97
_TABLES = (
    (modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, transformers.AutoModelForCausalLM),
    (modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, transformers.AutoModelForMaskedLM),
    (modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES, transformers.AutoModelForSeq2SeqLM),
)
_SIZES: dict[int, tuple[str, ...]] = {
    VOCAB_SIZE: ("vocab_size",),
    32: ("hidden_size", "n_embd", "d_model", "dim", "emb_dim", "embedding_size", "word_embed_proj_dim"),
    2: (
        *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"),
        *("num_decoder_layers", "num_key_value_heads", "num_experts", "num_local_experts", "n_routed_experts"),
        "eos_token_id",
    ),
    4: (
        *("num_attention_heads", "n_head", "n_heads", "num_heads"),
        *("encoder_attention_heads", "decoder_attention_heads"),
    ),
    48: ("intermediate_size", "n_inner", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "hidden_dim"),
    8: ("head_dim", "d_kv"),
    64: ("max_position_embeddings", "n_positions", "n_ctx", "max_target_positions"),
    16: ("moe_intermediate_size", "shared_expert_intermediate_size"),
    0: ("pad_token_id",),
    1: ("bos_token_id", "decoder_start_token_id", "num_experts_per_tok"),
}
_SMALL = {name: size for size, names in _SIZES.items() for name in names} | {"initializer_range": 0.2, "init_std": 0.2}
_LATENT = {
    "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8, "n_group": 1,
    "first_k_dense_replace": 2, "topk_group": 1, "n_shared_experts": 1, "num_key_value_heads": 4,
}  # fmt: skip
"""Multi-head latent attention: keys and values out of one small vector."""
_SMALLER = {
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "gemma4_text": {
        "layer_types": ["sliding_attention", "full_attention"] * 2, "num_hidden_layers": 4, "sliding_window": 6,
        "num_kv_shared_layers": 2, "global_head_dim": 16, "vocab_size_per_layer_input": VOCAB_SIZE,
        "hidden_size_per_layer_input": 8,
    },
    "inkling_text": {"swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_head_dim": 8},
    "falcon_h1": {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_state": 16},
    "nemotron_h": {"ssm_state_size": 16, "mamba_num_heads": 8, "mamba_head_dim": 8},
}  # fmt: skip
"""Of parts that are no attention, or one with sizes of its own, and slow."""
LARGEST = 5_000_000
"""Numbers of the largest model that is drawn: whose configuration takes no smaller sizes is not."""


def types() -> Iterator[tuple[str, Any]]:
    """Types of model, each once, and what opens them."""
    seen: set[str] = set()
    for table, kind in _TABLES:
        for name in table:
            if name not in seen:
                seen.add(name)
                yield name, kind


def drawn(model_type: str, kind: Any, **sizes: int) -> "transformers.PreTrainedModel":
    """A small random model of a type, some of its sizes given."""
    config = transformers.AutoConfig.for_model(model_type).__class__
    takes = inspect.signature(config.__init__).parameters
    fields = getattr(config, "__dataclass_fields__", {})
    known = {*takes, *fields, *getattr(config, "attribute_map", {})}
    wanted = {**_SMALL, **_SMALLER.get(model_type, {}), **sizes}
    made = config(**{name: value for name, value in wanted.items() if name in known})
    with torch.device("meta"):
        numbers = sum(parameter.numel() for parameter in kind.from_config(made).parameters())
    if numbers > LARGEST:
        raise ValueError(f"its smallest has {numbers:,} numbers")
    torch.manual_seed(0)
    model = kind.from_config(made).eval()
    if not made.is_encoder_decoder:
        with torch.no_grad():
            model(_tokens())  # sizes that do not fit together show here
    return model


def agrees(model: "transformers.PreTrainedModel") -> int:
    """How many attentions were traced, when each returns what its trace says: softmax(q k) v, to 1e-5."""
    with torch.no_grad():
        trace = headway.hf.trace(model, _tokens())
        for attention in trace.attentions:
            z = attention.patterns() @ attention.v[:, list(attention.kv_of)]
            torch.testing.assert_close(z, attention.z, rtol=1e-4, atol=1e-5)
    return len(trace.attentions)


def _attends(model: "transformers.PreTrainedModel") -> bool:
    try:
        headway.hf.traceable(model)
    except UserError as error:
        return "it has no attention" not in str(error)
    return True


def _tokens() -> torch.Tensor:
    return torch.randint(3, VOCAB_SIZE, (2, 12), generator=torch.Generator().manual_seed(0))


def outcome(model_type: str, kind: Any) -> tuple[str, str]:
    """What becomes of a type: agrees, refused or not drawn; and what more there is to say."""
    try:
        model = drawn(model_type, kind)
    except Exception as error:  # noqa: BLE001 - whatever a configuration does not like about small sizes
        return "not drawn", f"{type(error).__name__}: {' '.join(str(error).split())}"
    try:
        return "agrees", str(agrees(_attending(model, model_type, kind)))
    except UserError as error:
        return "refused", str(error).partition("cannot be traced: ")[2].partition(";")[0] or str(error)


def _attending(model: "transformers.PreTrainedModel", model_type: str, kind: Any) -> "transformers.PreTrainedModel":
    # Of some architectures one layer in eight has attention.
    return model if _attends(model) else drawn(model_type, kind, num_hidden_layers=8)


def decoder(model_type: str, kind: Any) -> TheirDecoder:
    """A small random model of a type whose heads can be acted on; its weights are none that it begins with."""
    model = _attending(drawn(model_type, kind), model_type, kind)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.2 * torch.randn(parameter.shape, generator=draw)
    return TheirDecoder(model)


def patched(model_type: str, kind: Any) -> tuple[str, str]:
    """What of its heads can be patched: all with paths, all, some, or nothing; and why not more."""
    try:
        found = decoder(model_type, kind)
    except UserError as error:
        return "nothing", re.split("cannot be traced: |or patched: ", str(error))[-1].partition(", so that")[0]
    tokens = _tokens()
    try:
        check_patching(found, tokens, PATCH_SITES, paths=True)
    except UserError as error:
        check_patching(found, tokens, ("z", "pattern"))
        return "some", str(error).partition("the check that failed: ")[2].partition(" (")[0]
    with torch.no_grad():
        why = found.stream_sums(tokens).why_not
    return ("all with paths", "") if why is None else ("all", why)


def _wrapped(names: Iterable[str]) -> list[str]:
    return textwrap.wrap(", ".join(f"`{name}`" for name in names), 118, break_on_hyphens=False, break_long_words=False)


_REASONS = {
    "AttentionInterface": "the attention bypasses the AttentionInterface of transformers",
    "a gate or a norm": "a gate or a norm stands between the heads and their output projection",
    "no attention": "no attention",
    "which an encoder sees": "queries see later tokens, as in an encoder",
    "changes the result of its output projection": "a layer adds something other than its output projection",
    "normalises or scales the whole stream": "a layer normalises or rescales the whole residual stream",
    "reads more from earlier layers": "layers share keys and values",
    "have the same effect as its contexts": "attention depends on more than queries and keys",
}
"""What the page says for errors with these words."""


def _by_reason(found: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the types by the reason that the page gives."""
    by_reason: dict[str, list[str]] = {}
    for name, error in found:
        reason = next((reason for words, reason in _REASONS.items() if words in error), error)
        by_reason.setdefault(reason, []).append(name)
    return by_reason


def _table(found: Iterable[tuple[str, str]]) -> list[str]:
    rows = (f"| {reason} | {', '.join(f'`{name}`' for name in names)} |" for reason, names in _by_reason(found).items())
    return ["| why | model_type |", "|---|---|", *rows, ""]


def written(
    outcomes: list[tuple[str, str, str]], patching: list[tuple[str, str, str]], version: str = transformers.__version__
) -> str:
    """Return the page, from the outcomes of all types and what can be patched in decoders that agree."""
    agreeing = [name for name, what, _ in outcomes if what == "agrees"]
    parts = {
        part: [(name, why) for name, what, why in patching if what == part]
        for part in ("all with paths", "all", "some", "nothing")
    }
    whole = [name for name, _ in parts["all with paths"]]
    acted_on = {name for name, what, _ in patching if what != "nothing"}
    measured = [name for name in agreeing if name not in acted_on]
    refused = [(name, why) for name, what, why in outcomes if what == "refused"]
    others = [name for name, what, _ in outcomes if what == "not drawn"]
    lines = [
        "# Which architectures work",
        "",
        f"`make docs` writes this page with transformers {version}, and tests check it. Headway makes a small random",
        "model of each architecture that reads text. The architecture is supported if softmax(q k) v,",
        "computed from the trace, equals the output of every attention layer to 1e-5. Patching must also agree with",
        "the model's own attention. The names are the `model_type` in config.json.",
        "",
        f"## {len(whole)} decoders: x-ray, ablation, activation patching and path patching",
        "",
        *_wrapped(whole),
        "",
        f"## {len(parts['all'])} decoders: all but path patching",
        "",
        *_table(parts["all"]),
        f"## {len(parts['some'])} decoders: ablation, and patching of outputs and patterns",
        "",
        *_table(parts["some"]),
        f"## {len(measured)} models: x-ray alone",
        "",
        "These are encoders, encoder-decoder models, and models that cannot be patched.",
        "",
        *_wrapped(measured),
        "",
        f"## {len(refused)} are refused",
        "",
        *_table(refused),
        f"## {len(others)} were not tried",
        "",
        "Headway cannot make small models of these: their sizes have unusual names, or some parts read no text.",
        "Headway's own reader opens `gpt_neo`; see [heads](heads.md).",
        "",
        *_wrapped(others),
    ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page, after drawing every type."""
    kinds = dict(types())
    outcomes = [(name, *outcome(name, kind)) for name, kind in kinds.items()]
    decoders = [
        name for name, what, _ in outcomes if what == "agrees" and kinds[name] is transformers.AutoModelForCausalLM
    ]
    return written(outcomes, [(name, *patched(name, kinds[name])) for name in decoders])


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    Path(__file__).with_suffix(".md").write_text(page())
