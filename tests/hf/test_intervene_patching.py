"""Heads of decoders that others wrote, patched: as Headway's own where both can be, and as their attention does."""

import copy

import numpy as np
import pytest
import torch
import transformers
from support import planted, zoo
from support.drawn import STOCK, VOCAB_SIZE, weights_of
from support.tolerance import assert_same, nearly
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

import headway
from headway.causal import patching
from headway.causal.checks import check_patching
from headway.causal.patch_result import PATCH_SITES
from headway.causal.patching import TwoRuns, cancelling, estimated_effects, head_paths, patched_effects
from headway.errors import UserError
from headway.hf import intervene
from headway.hf.intervene import TheirDecoder
from headway.hf.write import export

SCALED = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16, "rope_theta": 100.0,
}  # fmt: skip
MORE = {
    "llama-3.1": transformers.LlamaConfig(**zoo._llama, rope_parameters=SCALED),
    "cohere": transformers.CohereConfig(**zoo._llama),
    "olmo-2": transformers.Olmo2Config(**zoo._llama),
}
FOREIGN = ("gpt-neox", "gemma-2", "gemma-3", "qwen-3", "phi", "opt", "mistral", *MORE)
"""Parallel blocks, caps, windows, norms after W_O and of queries, part and scaled rotary turns, learned positions."""


def answer(logits):
    return logits[:, -1, 1] - logits[:, -1, 2]


def model_of(name, **options):
    if name not in MORE:
        return zoo.model_of(name, **options)
    torch.manual_seed(0)
    config = copy.deepcopy(MORE[name])
    return zoo.stirred(transformers.AutoModelForCausalLM.from_config(config, **options)).eval()


def runs_of(name):
    clean, corrupted = (zoo.tokens_of((2, 9), seed) for seed in (0, 1))
    return TwoRuns(TheirDecoder(model_of(name)), clean, corrupted, answer)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STOCK if not name.startswith("neo")])
def test_as_theirs_a_model_is_patched_as_our_own(name, tmp_path):
    _, declared = STOCK[name]
    export(declared, VOCAB_SIZE, weights_of(declared), tmp_path / name)
    own = headway.hf.load(tmp_path / name).eval()
    theirs = TheirDecoder(transformers.AutoModelForCausalLM.from_pretrained(tmp_path / name).eval())
    clean, corrupted = (zoo.tokens_of((2, 6), seed) for seed in (0, 1))
    one, other = (TwoRuns(model, clean, corrupted, answer) for model in (own, theirs))
    scale = max(1.0, float(one.values(clean).abs().max()))
    for by_position in (False, True):
        estimates = [estimated_effects(runs, PATCH_SITES, by_position=by_position) for runs in (one, other)]
        for site in PATCH_SITES:
            wanted, found = (patched_effects(runs, site, by_position=by_position) for runs in (one, other))
            assert one.heads == other.heads
            assert_same(found, wanted, scale=scale, dtype=np.float32)
            assert_same(estimates[1][site], estimates[0][site], scale=scale, dtype=np.float32)
    assert cancelling(one) == cancelling(other)
    wanted, found = (head_paths(runs) for runs in (one, other))
    assert_same(found.to_output, wanted.to_output, scale=scale, dtype=np.float32)
    for name, changes in wanted.through.items():
        assert_same(found.through[name], changes, scale=scale, dtype=np.float32)


def written_out(model, tokens, layer, put):
    """The metric of a whole pass whose attention is written out here; `put(site, x)` is what stands at a site."""
    calls = []

    def attend(module, q, k, v, mask, **options):
        at = put if len(calls) == layer else lambda _, x: x
        calls.append(module)
        q, k, v = at("q", q), at("k", k), at("v", v)
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        logits = q @ k.mT * (q.shape[3] ** -0.5 if options.get("scaling") is None else options["scaling"])
        if (cap := options.get("softcap")) is not None:
            logits = cap * (logits / cap).tanh()
        weights = at("pattern", (logits + mask[..., : k.shape[2]]).softmax(3))
        return at("z", weights @ v).transpose(1, 2).contiguous(), weights

    AttentionInterface.register("written-out", attend)
    AttentionMaskInterface.register("written-out", eager_mask)
    own = model.config._attn_implementation
    model.set_attn_implementation("written-out")
    try:
        with torch.no_grad():
            return answer(model(input_ids=tokens, use_cache=False).logits)
    finally:
        model.set_attn_implementation(own)


def by_their_own_attention(runs, layer, head, site):
    """What the metric does with a head, or with the KV head that it reads, as on the clean text."""
    model, clean = runs.model.model, {}
    written_out(model, runs.clean_tokens, layer, lambda name, x: clean.setdefault(name, x))

    def put(name, x):
        if name != site:
            return x
        x, at = x.clone(), runs.corrupted.attentions[layer].kv_of[head] if name in "kv" else head
        x[:, at] = clean[name][:, at]
        return x

    return (
        written_out(model, runs.tokens, layer, put) - written_out(model, runs.tokens, layer, lambda _, x: x)
    ).double()


@pytest.mark.parametrize("name", FOREIGN)
def test_patches_are_passes_of_an_attention_that_is_written_out(name):
    runs = runs_of(name)
    for layer, head in ((0, 1), (1, 2)):
        of, clean = runs.corrupted.attentions[layer], runs.clean.attentions[layer]
        for site in PATCH_SITES:
            wanted = by_their_own_attention(runs, layer, head, site)
            readers = [each for each, kv in enumerate(of.kv_of) if kv == of.kv_of[head]] if site in "kv" else [head]
            contexts = {each: patching.patched_context(clean, of, each, site) for each in readers}
            found = runs.with_contexts(layer, [contexts])[0] - runs.values(runs.tokens)
            assert_same(found, wanted, scale=runs.values(runs.tokens), dtype=np.float32)
            assert wanted.abs().max() > 1e-4
            if len(readers) == 1:
                heads, effects = runs.heads, patched_effects(runs, site)
                assert_same(
                    effects[heads.index((layer, head))], found, scale=runs.values(runs.tokens), dtype=np.float32
                )


@pytest.mark.parametrize("name", ["gpt-neox", "gemma-2", "llama-3.1"])
def test_estimates_are_slopes(name):
    """The context moved a little way towards the clean one."""
    runs = runs_of(name)
    tiny, estimates = 1e-2, estimated_effects(runs, ("z",))["z"]
    heads = runs.heads
    for at, (layer, head) in enumerate(heads):
        clean, of = (each.attentions[layer].z[:, head] for each in (runs.clean, runs.corrupted))
        ends = runs.with_contexts(layer, [{head: of + sign * tiny * (clean - of)} for sign in (1, -1)])
        torch.testing.assert_close((ends[0] - ends[1]) / (2 * tiny), estimates[at], rtol=0.02, atol=5e-3)


def test_copies_side_by_side_are_what_they_are_one_by_one(monkeypatch):
    """As where a layer gives something that is not by text: what its router says, for one."""
    together = runs_of("mistral")
    assert together.run.repeats
    monkeypatch.setattr(intervene, "_by_text", lambda *_: False)
    alone = runs_of("mistral")
    assert not alone.run.repeats
    for site in ("z", "k"):
        one, other = (patched_effects(runs, site, by_position=True) for runs in (together, alone))
        assert_same(one, other, dtype=np.float32)
    one, other = (head_paths(runs).through["v"] for runs in (together, alone))
    assert_same(one, other, dtype=np.float32)


def refused(found, said, sites=PATCH_SITES):
    with pytest.raises(UserError, match=f"the check that failed: in layer {said}"):
        check_patching(found, zoo.tokens_of((2, 9)), sites)


def test_parts_that_are_ignored_are_refused(monkeypatch):
    edited = intervene.edited
    monkeypatch.setattr(intervene, "edited", lambda x, *given: edited(x, *given) if given[-1] == "z" else x)
    for site in "qkv":
        refused(TheirDecoder(zoo.model_of("gpt-neox")), f"0 {site} of another text in the model's own", (site,))


def test_contexts_that_are_not_the_models_are_refused(monkeypatch):
    """As if a trace did not say the cap of the logits."""
    weights = patching.AttentionTrace.patterns
    monkeypatch.setattr(patching.AttentionTrace, "patterns", lambda self: weights(patching.replace(self, softcap=None)))
    found = TheirDecoder(zoo.model_of("gemma-2"))
    refused(found, "0 patching every head with its own q changes nothing; they differ by")
    check_patching(found, zoo.tokens_of((2, 9)), ("z",))


def test_heads_that_look_by_more_than_queries_and_keys_are_refused_but_for_what_they_give():
    torch.manual_seed(0)
    sizes = {key: value for key, value in zoo._llama.items() if key != "initializer_range"}
    config = transformers.DogeConfig(**sizes, initializer_range=0.2, keep_window_size=64)
    found = TheirDecoder(zoo.stirred(transformers.AutoModelForCausalLM.from_config(config)).eval())
    refused(found, "0 queries, keys and values of another text have the same effect as its contexts, since nothing")
    check_patching(found, zoo.tokens_of((2, 9)), ("z", "pattern"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_planted_heads_are_found_where_others_wrote_the_model(seed):
    model, (first, second) = planted.planted_elsewhere(seed)
    clean, targets, _ = planted.texts(seed)
    with torch.no_grad():
        right = (model(input_ids=clean).logits.argmax(2) == targets)[:, planted.PERIOD :].float().mean()
    assert right > 0.9
    corrupted, before, last = clean.clone(), clean.shape[1] - 1 - planted.PERIOD, targets[:, -1]
    corrupted[:, before] = (clean[:, before] + 1) % planted.VOCAB

    def metric(logits):
        return logits[torch.arange(len(last)), -1].gather(1, last[:, None])[:, 0]

    runs = TwoRuns(TheirDecoder(model), clean, corrupted, metric)
    check_patching(runs.model, clean[:1], PATCH_SITES)
    heads, effects = runs.heads, patched_effects(runs, "z")
    difference = float((runs.values(clean) - runs.values(corrupted)).mean())
    restored = dict(zip(heads, (effects.mean(1) / difference).tolist(), strict=True))
    assert {head for head, share in restored.items() if share > 0.1} == {first, second}
    paths = head_paths(runs)
    at = [paths.heads.index(head) for head in (first, second)]
    moved = {
        (*place, name)
        for name in "qkv"
        for place in np.argwhere(np.abs(paths.through[name]) > 0.1 * difference).tolist()
    }
    assert {tuple(each) for each in moved} == {(*at, "k")}


@pytest.mark.parametrize("name", FOREIGN)
def test_paths_are_what_a_later_head_does_where_only_the_writer_changed(name):
    """The layer of the writer is run with its MLP as it was; what the next layer's queries then are is put in."""
    runs = runs_of(name)
    paths, model, writer, reader = head_paths(runs), runs.model.model, 1, 2
    mlp = next(each for path, each in model.named_modules() if path.endswith(("0.mlp", "0.fc2")))
    gave, read, clean = [], {}, runs.clean.attentions[0].z[:, writer]
    hook = mlp.register_forward_hook(lambda _, __, output: gave.append(output))
    written_out(model, runs.tokens, 1, lambda _, x: x)
    hook.remove()

    def z_of(x):
        x = x.clone()
        x[:, writer] = clean
        return x

    hook = mlp.register_forward_hook(lambda *_: gave[0])
    runs.model.hidden(runs.tokens, edits={(0, "z"): z_of, (1, "q"): lambda x: read.setdefault("q", x.detach())})
    hook.remove()

    def put(site, x):
        if site == "q":
            x = x.clone()
            x[:, reader] = read["q"][:, reader]
        return x

    wanted = written_out(model, runs.tokens, 1, put) - written_out(model, runs.tokens, 1, lambda _, x: x)
    row, column = (paths.heads.index(head) for head in ((0, writer), (1, reader)))
    assert paths.through["q"][row, column] == nearly(
        float(wanted.mean()), scale=runs.values(runs.tokens), dtype=np.float32
    )
    assert abs(float(wanted.mean())) > 1e-4


def test_no_path_is_measured_where_the_whole_stream_is_normed():
    torch.manual_seed(0)
    config = transformers.OPTConfig(**zoo._wide, ffn_dim=48, word_embed_proj_dim=32, do_layer_norm_before=False)
    found = TheirDecoder(zoo.stirred(transformers.OPTForCausalLM(config)).eval())
    with pytest.raises(UserError, match=r"\(layer 0 does not pass its input on unchanged; it normalises or scales the"):
        head_paths(TwoRuns(found, *(zoo.tokens_of((2, 9), seed) for seed in (0, 1)), answer))
