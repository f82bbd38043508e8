"""Small random models of the architectures whose heads are traced, and texts for them."""

import copy

import torch
import transformers

VOCAB_SIZE = 97
_plain = {"vocab_size": VOCAB_SIZE, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "initializer_range": 0.2}
_wide = {**_plain, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}
_llama = {**_wide, "intermediate_size": 48, "num_key_value_heads": 2}
_bart = {
    "vocab_size": VOCAB_SIZE,
    "d_model": 32,
    "init_std": 0.2,
    "decoder_start_token_id": 2,
    "max_position_embeddings": 64,
    "attention_dropout": 0.1,
    **{f"{side}_layers": 2 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 4 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 48 for side in ("encoder", "decoder")},
}

CONFIGS = {
    "gpt-2": transformers.GPT2Config(**_plain, n_embd=32, n_layer=2, n_head=4, n_positions=64),
    "llama": transformers.LlamaConfig(**_llama, attention_dropout=0.1),
    "mistral": transformers.MistralConfig(**_llama, sliding_window=4, attention_dropout=0.1),
    "gpt-neox": transformers.GPTNeoXConfig(**_wide, intermediate_size=48, attention_dropout=0.1),
    "gemma-2": transformers.Gemma2Config(
        **_llama, head_dim=12, query_pre_attn_scalar=20, sliding_window=4, attn_logit_softcapping=2.0
    ),
    "gemma-3": transformers.Gemma3TextConfig(**_llama, head_dim=12, query_pre_attn_scalar=20, sliding_window=4),
    "qwen-3": transformers.Qwen3Config(**_llama, head_dim=12),
    "opt": transformers.OPTConfig(**_wide, ffn_dim=48, word_embed_proj_dim=32, attention_dropout=0.1),
    "phi": transformers.PhiConfig(**_llama, partial_rotary_factor=0.5),
    "bert": transformers.BertConfig(**_wide, intermediate_size=48),
    "t5": transformers.T5Config(
        vocab_size=VOCAB_SIZE,
        d_model=32,
        d_kv=10,
        num_heads=4,
        num_layers=2,
        d_ff=48,
        decoder_start_token_id=0,
        pad_token_id=0,
        initializer_factor=1.0,
        dropout_rate=0.1,
    ),
    "bart": transformers.BartConfig(**_bart),
}
_KINDS = {
    "bert": transformers.AutoModelForMaskedLM,
    "t5": transformers.AutoModelForSeq2SeqLM,
    "bart": transformers.AutoModelForSeq2SeqLM,
}


def model_of(name, **options):
    """Of a name the same weights each time, whatever the options; biases and norms are no trivial ones."""
    torch.manual_seed(0)
    config = copy.deepcopy(CONFIGS[name])  # transformers writes the implementation into it
    model = _KINDS.get(name, transformers.AutoModelForCausalLM).from_config(config, **options)
    return stirred(model).eval()


def stirred(model):
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter += 0.2 * torch.randn_like(parameter)
            elif "relative_attention_bias" in name:
                parameter.normal_()
    return model


def tokens_of(shape, seed=0):
    return torch.randint(3, VOCAB_SIZE, shape, generator=torch.Generator().manual_seed(seed))


def text_for(model, *, padded="left"):
    """Two texts of 11 and 7 tokens, for an encoder-decoder also two of 9 and 6 to be written."""

    def side(lengths, seed):
        tokens, width = tokens_of((2, max(lengths)), seed), max(lengths)
        ago = torch.arange(width).flip(0) if padded == "left" else torch.arange(width)
        mask = (ago < torch.tensor(lengths)[:, None]).long()
        return tokens * mask, mask

    names = [("", (11, 7), 0)] + ([("decoder_", (9, 6), 1)] if model.config.is_encoder_decoder else [])
    inputs = {}
    for prefix, lengths, seed in names:
        inputs[f"{prefix}input_ids"], inputs[f"{prefix}attention_mask"] = side(lengths, seed)
    return inputs
