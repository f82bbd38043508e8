"""How often the x-ray of a model that learnt nothing has a finding, and how often planted heads are found.

    python benchmarks/silence.py     # some minutes; --models 20: fewer
    python benchmarks/silence.py --rows 2048 --planted 0    # heads are then drawn anew at some queries alone
    python benchmarks/silence.py --coverage 6    # how many further draws the intervals of the draws hold
    python benchmarks/silence.py --trained 10    # small models trained on hops, sorting and noise
    python benchmarks/silence.py --kinds 20    # so many models of each kind of untrained weights, a row a kind
    python benchmarks/silence.py --families 10    # the same of models of transformers: every kind in six families

Models are drawn: 1 to 6 layers of 1 to 16 heads, ragged, grouped, windowed, d_head 2 to 128, d_model up to 256, with
norms before, after or none, learned, rotary, sinusoidal or no positions, initial weights from 1 to 20 times .01. Their
texts are random tokens of which few are frequent. A page may have a finding in 5 of 100; a planted head is one that
does what its name says with the strength that is stated, among untrained heads.

Kinds of untrained weights have two or three layers of 2, 4 or 8 heads. Each kind changes all matrices of the layers:
gains of norms folded into queries, keys and values, rank 2, rows of unequal scale, a shifted mean, heavy tails, and so
on. A shared subspace is a layer whose queries all read the subspace of its first head, each in a basis of its own.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import re
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import transformers
from scipy.stats import t as student
from transformers.pytorch_utils import Conv1D

import headway
from headway.config.lm.model import Gpt2, GptNeo, Llama, TransformerModel
from headway.config.lm.synthetic import HopsTask
from headway.data.synthetic import end_of_hops, letters_without_repeats
from headway.heads.findings import Finding, findings
from headway.heads.measure import Repeated, in_batches, repeats_of_text, tokens_to_repeat
from headway.heads.results import XRay
from headway.heads.scores import row_labels
from headway.heads.token_circuits import composed_on_text, compositions
from headway.heads.untrained import examine_beside_untrained
from headway.models import redraw
from headway.models.redraw import Redrawable
from headway.models.trace import AttentionTrace
from headway.models.transformer import Transformer
from headway.models.weights import Weights, initial_weights

DRAWS = 16
WIDEST = 256
"""Of a layer's heads together: wider ones are slow, and no other."""


def drawn_model(seed: int) -> tuple[TransformerModel, int, int]:
    """A shape, its vocabulary and the length of its texts."""
    random = np.random.default_rng([seed, 12])
    n_layers, length = int(random.integers(1, 7)), int(random.choice([24, 48, 96]))
    family = [Gpt2, GptNeo, Llama][random.integers(3)]
    d_head = int(random.choice([2, 4, 8, 16, 32, 64, 128]))
    d_model = int(random.choice([16, 32, 64, 128, 256]))
    layers = []
    for _ in range(n_layers if random.random() < 0.5 else 1):
        n_heads = int(random.choice([n for n in (1, 2, 3, 4, 6, 8, 12, 16) if n * d_head <= WIDEST]))
        group = int(random.choice([n for n in (1, 1, 2, 3, 4) if n_heads % n == 0]))
        layers.append(f"{n_heads}:{n_heads // group}x{d_head}" if group > 1 else f"{n_heads}x{d_head}")
    layout = "-".join(layers if len(layers) == n_layers else layers * n_layers)
    windows = [(None,), (None, 4), (8,), (None, 16, 2)][random.integers(4)]
    given = {
        "family": {Gpt2: "gpt-2", GptNeo: "gpt-neo", Llama: "llama"}[family],
        "d_model": d_model,
        "n_layers": n_layers,
        "n_heads": layout,
        "windows": windows,
        "n_positions": length,
        "init_std": float(random.choice([0.01, 0.02, 0.05, 0.1, 0.2])),
        "norm_place": str(random.choice(["before", "before", "after"])),
    }
    if random.random() < 0.2:
        given["norm"] = "none"
        given["init_std"] = min(given["init_std"], 0.05)  # the stream must not overflow
    if family is not Llama and random.random() < 0.3:
        given["positions"] = str(random.choice(["sinusoidal", "none"]))
    return family(**given), int(random.choice([17, 64, 512])), length


def texts(seed: int, vocab_size: int, length: int, sequences: int) -> torch.Tensor:
    """Tokens of which few are frequent, as in a text."""
    random = np.random.default_rng([seed, 13])
    shares = 1 / np.arange(1, vocab_size + 1)
    return torch.from_numpy(random.choice(vocab_size, (sequences, length), p=shares / shares.sum()))


def page(
    model: Transformer, tokens: torch.Tensor, draws: int = DRAWS, plants: "tuple[Plant, ...]" = ()
) -> list[Finding]:
    """What an x-ray finds, with some heads' patterns planted."""
    longest = min(64, tokens.shape[1] // 2, len(tokens_to_repeat(tokens.numpy())))
    repetition = in_batches(repeats_of_text(tokens.numpy(), longest, 8, seed=0), 8, torch.device("cpu"))
    with torch.inference_mode():
        reading = planted_reading(redraw.read(model, tokens), plants, None)
        reading = replace(reading, trace=replace(reading.trace, tokens=tokens))
        scores = examine_beside_untrained(
            [reading],
            read=lambda given: planted_reading(redraw.read(model, given), plants, repetition[0]),
            repetition=repetition,
            weights=None,
            draws=draws,
            n_rows=tokens.numel(),
        )
        composition = composed_on_text(model, reading, compositions(model), draws)
    labels = row_labels([attention.name for attention in reading.trace.attentions])
    return [finding for finding in findings(scores, labels, composition) if finding.found]


@dataclass(frozen=True, kw_only=True)
class Plant:
    """A head that puts so much of its attention, at every query, where its kind does, and the rest where it did."""

    kind: str
    layer: int
    head: int
    strength: float


KINDS = ("induction", "previous-token", "duplicate-token", "positional", "first token")
STRENGTHS = {"induction": 0.6, "previous-token": 0.6, "duplicate-token": 0.6, "positional": 0.6, "first token": 0.7}
TWIN, COMPOSED = 0.95, 0.7
"""The correlation of the weights of twins, and of what a head's keys read with what an earlier head writes (heads of
d_model / 4 at most: wider ones write everywhere)."""


def planted_reading(reading: Redrawable, plants: tuple[Plant, ...], repeated: Repeated | None) -> Redrawable:
    """The model's own heads with planted patterns; the draws stay what they are."""
    attentions = list(reading.trace.attentions)
    for plant in plants:
        at = next(i for i, attention in enumerate(attentions) if attention.layer == plant.layer)
        attentions[at] = _with_pattern(attentions[at], plant, repeated)
    return replace(reading, trace=replace(reading.trace, attentions=tuple(attentions)))


def _with_pattern(attention: AttentionTrace, plant: Plant, repeated: Repeated | None) -> AttentionTrace:
    """By a bias of the logits at the target, so large that the softmax has the strength there."""
    batch, n_heads, n, _ = attention.q.shape
    places = torch.arange(n).expand(batch, n)
    if plant.kind in ("induction", "duplicate-token"):
        if repeated is None:
            return attention
        back = repeated.periods[:, None] - int(plant.kind == "induction")
        target = torch.where(places >= (repeated.begins + repeated.periods)[:, None], places - back, places)
    else:
        target = torch.zeros_like(places) if plant.kind == "first token" else (places - 1).clamp(min=0)
    logits = attention.logits()[:, plant.head]
    there = logits.gather(2, target[..., None])[..., 0]
    others = logits.scatter(2, target[..., None], -torch.inf).logsumexp(2)
    more = (np.log(plant.strength / (1 - plant.strength)) + others - there).nan_to_num(0, 0, 0)
    bias = torch.zeros(batch, n_heads, n, n) if attention.bias is None else attention.bias.clone()
    bias[:, plant.head].scatter_add_(2, target[..., None], more.clamp(min=0)[..., None])
    biased = replace(attention, bias=bias)
    z = attention.z.clone()
    z[:, plant.head] = biased.patterns()[:, plant.head] @ attention.v[:, attention.kv_of[plant.head]]
    return replace(biased, z=z)


def planted(seed: int) -> tuple[dict[str, str], list[Finding]]:
    """What is planted in a drawn model, by kind the head's or pair's name; and what its page finds."""
    random = np.random.default_rng([seed, 14])
    while True:
        declared, vocab_size, length = drawn_model(int(random.integers(2**31)))
        counts = declared.layout.n_heads
        if declared.d_model >= 64 and vocab_size > 17 and length >= 48 and max(counts) >= 2:
            break
    weights = initial_weights(declared, vocab_size, seed)
    free = [(layer, head) for layer, n in enumerate(counts) for head in range(n)]
    random.shuffle(free)
    plants, names = [], {}
    for kind in KINDS:
        needs = {"previous-token": WINDOW, "positional": WINDOW}.get(kind, length)
        fits = [at for at in free if (declared.window(at[0]) or length) >= needs]
        if fits:
            layer, head = fits[0]
            free.remove(fits[0])
            plants.append(Plant(kind=kind, layer=layer, head=head, strength=STRENGTHS[kind]))
            names[kind] = f"L{layer}H{head}"
    _plant_twins(declared, weights, free, names, random)
    _plant_composed(declared, weights, free, names, random)
    model, tokens = (
        Transformer(declared, vocab_size, weights).eval(),
        texts(seed, vocab_size, length, max(2, 256 // length)),
    )
    if "composed" in names:
        _sharpen(model, tokens, names["composed"])
    return names, page(model, tokens, plants=tuple(plants))


def _sharpen(model: Transformer, tokens: torch.Tensor, pair: str) -> None:
    """Let the earlier head write as much as the stream has, and the later one's logits spread by 3: a path must act."""
    (first, writer), (last, reader) = (map(int, name[1:].split("H")) for name in pair.split(" → "))
    with torch.no_grad():
        trace = model.trace(tokens)
        written = next(each for each in trace.attentions if each.layer == first).contributions()[:, writer]
        share = 2 * float(trace.streams[last].std() / written.std())
        for parameter in model.get_submodule(f"layers.{first}.attention.o").parameters():
            if parameter.ndim == 2:
                parameter[:, _rows(model.model, first, writer, "o")] *= share
        logits = next(each for each in model.trace(tokens).attentions if each.layer == last).logits()[:, reader, -1]
        spread = float(torch.stack([row[row.isfinite()].std() for row in logits]).mean())
        for parameter in model.get_submodule(f"layers.{last}.attention.q").parameters():
            parameter[_rows(model.model, last, reader, "q")] *= 3 / spread


def _rows(declared: TransformerModel, layer: int, head: int, which: str) -> slice:
    heads = declared.layout.layers[layer]
    kv_of = [kv for kv, count in enumerate(heads.queries) for _ in range(count)]
    at = kv_of[head] if which in "kv" else head
    return slice(at * heads.d_head, (at + 1) * heads.d_head)


def _plant_twins(declared: TransformerModel, weights: Weights, free: list, names: dict[str, str], random: Any) -> None:
    pairs = [(one, other) for one in free for other in free if one[0] == other[0] and one[1] < other[1]]
    if not pairs:
        return
    (layer, one), (_, other) = pairs[int(random.integers(len(pairs)))]
    for which in "qkvo":
        array = weights[f"layers.{layer}.attention.{which}.weight"]
        array = array.T if which == "o" else array
        own, twin = (array[_rows(declared, layer, head, which)] for head in (one, other))
        if _rows(declared, layer, one, which) != _rows(declared, layer, other, which):
            twin[:] = TWIN * own + np.sqrt(1 - TWIN**2) * twin
    free[:] = [at for at in free if at[0] != layer]  # nothing else changes there
    names["twins"] = f"L{layer}H{one} and L{layer}H{other}"


def _plant_composed(
    declared: TransformerModel, weights: Weights, free: list, names: dict[str, str], random: Any
) -> None:
    if declared.norm_place == "after" and declared.norm != "none":  # there no path is measured on the text
        return
    narrow = {layer for layer, heads in enumerate(declared.layout.layers) if 4 * heads.d_head <= declared.d_model}
    pairs = [(one, other) for one in free for other in free if one[0] < other[0] and {one[0], other[0]} <= narrow]
    if not pairs:
        return
    (earlier, writer), (later, reader) = pairs[int(random.integers(len(pairs)))]
    written = weights[f"layers.{earlier}.attention.o.weight"].T[_rows(declared, earlier, writer, "o")]
    keys = weights[f"layers.{later}.attention.k.weight"][_rows(declared, later, reader, "k")]
    read = random.normal(size=(len(keys), len(written))) @ written
    read *= np.linalg.norm(keys) / np.linalg.norm(read)
    keys[:] = COMPOSED * read + np.sqrt(1 - COMPOSED**2) * keys
    names["composed"] = f"L{earlier}H{writer} → L{later}H{reader}"


WINDOW = 8
"""Keys that a planted previous-token head sees at least: of two keys it has half of everything by chance."""
ABOUT = {
    "induction": ("induction_score", "text_induction_score"),
    "previous-token": ("previous_token_score",),
    "duplicate-token": ("duplicate_token_score", "text_duplicate_score"),
    "positional": ("positional_score",),
    "first token": ("sink_score",),
    "twins": ("output_correlation", "query_cka_centred"),
    "composed": ("k_composition",),
}
"""The metrics of a finding by what was planted."""


def is_found(kind: str, name: str, found: list[Finding]) -> bool:
    """Whether a finding of the kind names what was planted, or more than it can name."""
    for finding in found:
        names_some = " more" in finding.sentence or finding.statements[0].values.get("n", 0) > 3
        if finding.about in ABOUT[kind] and (name in finding.sentence or names_some):
            return True
    return False


def untrained(seed: int, rows: int = 256) -> tuple[TransformerModel, list[Finding]]:
    declared, vocab_size, length = drawn_model(seed)
    model = Transformer(declared, vocab_size, initial_weights(declared, vocab_size, seed)).eval()
    return declared, page(model, texts(seed, vocab_size, length, max(2, rows // length)))


UNTRAINED = {
    "usual": lambda g, o, i: g.normal(size=(o, i)),
    "folded gains": lambda g, o, i: g.normal(size=(o, i)),
    "rank 2": lambda g, o, i: g.normal(size=(o, 2)) @ g.normal(size=(2, i)),
    "unequal rows": lambda g, o, i: g.normal(size=(o, i)) * np.exp(g.normal(size=(o, 1))),
    "graded rows": lambda g, o, i: g.normal(size=(o, i)) * np.logspace(-0.5, 0.5, o)[:, None],
    "shifted mean": lambda g, o, i: 1 + g.normal(size=(o, i)),
    "heavy tails": lambda g, o, i: g.standard_t(2, size=(o, i)),
    "all positive": lambda g, o, i: abs(g.normal(size=(o, i))),
    "orthogonal": lambda g, o, i: _orthogonal(g, o, i),
    "sparse": lambda g, o, i: g.normal(size=(o, i)) * (g.random((o, i)) < 0.1),
    "uniform": lambda g, o, i: g.uniform(-1, 1, (o, i)),
    "low precision": lambda g, o, i: np.round(2 * g.normal(size=(o, i))),
    "power law": lambda g, o, i: _with_spectrum(g, o, i, 1 / np.arange(1, min(o, i) + 1)),
    "geometric": lambda g, o, i: _with_spectrum(g, o, i, 0.8 ** np.arange(min(o, i))),
    "spiked": lambda g, o, i: g.normal(size=(o, i)) + 3 * np.outer(g.normal(size=o), g.normal(size=i)) / np.sqrt(i),
    "Kronecker": lambda g, o, i: np.kron(g.normal(size=(o // 4, i // 4)), g.normal(size=(4, 4))),
    "blocks": lambda g, o, i: np.kron(np.eye(4), np.ones((o // 4, i // 4))) * g.normal(size=(o, i)),
    "circulant": lambda g, o, i: g.normal(size=i)[(np.arange(i) - np.arange(o)[:, None]) % i],
    "near identity": lambda g, o, i: np.eye(o, i) + g.normal(size=(o, i)) / np.sqrt(i),
    "signs": lambda g, o, i: g.choice([-1.0, 1.0], size=(o, i)),
    "log-normal": lambda g, o, i: np.exp(g.normal(size=(o, i))) * g.choice([-1.0, 1.0], size=(o, i)),
    "Laplace": lambda g, o, i: g.laplace(size=(o, i)),
    "graded columns": lambda g, o, i: g.normal(size=(o, i)) * np.logspace(-0.5, 0.5, i),
    "biases": lambda g, o, i: g.normal(size=(o, i)),
    "large": lambda g, o, i: g.normal(size=(o, i)),
}
"""Kinds of untrained matrices, which then get the size of the usual ones.

Large ones get four times as much, and `biases` are random for queries and keys, with a spread of 1. Graded rows make
the first heads of a layer smaller than the last: a page calls them idle, which they are."""


def _orthogonal(random: Any, rows: int, columns: int) -> np.ndarray:
    Q = np.linalg.qr(random.normal(size=(max(rows, columns), min(rows, columns))))[0]
    return Q if rows >= columns else Q.T


def _with_spectrum(random: Any, rows: int, columns: int, singular: np.ndarray) -> np.ndarray:
    n = len(singular)
    return _orthogonal(random, rows, n) * singular @ _orthogonal(random, n, columns)


def small_model(kind: str, seed: int, family: type | None = None) -> tuple[TransformerModel, int, Weights]:
    """A small GPT-2 or Llama with weights of a kind, and its vocabulary."""
    random = np.random.default_rng([seed, 77])
    family = family or (Gpt2, Llama)[seed % 2]
    d_model, n_heads, d_head = (int(random.choice(n)) for n in ([32, 64, 128], [2, 4, 8], [4, 8, 16]))
    n_layers = int(random.choice([2, 3]))
    declared = family(
        family={Gpt2: "gpt-2", Llama: "llama"}[family],
        d_model=d_model,
        n_layers=n_layers,
        n_heads="-".join([f"{n_heads}x{d_head}"] * n_layers),
        windows=(None,),
        n_positions=48,
        init_std=float(random.choice([0.02, 0.1])),
        norm_place="before",
    )
    weights = {name: np.array(array) for name, array in initial_weights(declared, 64, seed).items()}
    for name, own in weights.items():
        if own.ndim != 2 or not name.startswith("layers."):
            continue
        drawn = UNTRAINED[kind](random, *own.shape)
        weights[name] = _as_large(kind, drawn, own)
        if kind == "folded gains" and name.endswith(("q.weight", "k.weight", "v.weight")):
            gain = np.random.default_rng([seed, int(name.split(".")[1])]).normal(size=own.shape[1])
            weights[name] *= np.exp(gain).astype(np.float32)
    return declared, 64, weights


def _as_large(kind: str, drawn: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Matrices of the size of others, or four times as large."""
    size = (4 if kind == "large" else 1) * np.sqrt(np.square(own).mean() / np.square(drawn).mean())
    return (drawn * size).astype(np.float32)


_SIZES = {
    "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0, "initializer_range": 0.1,
}  # fmt: skip
_GROUPED = {**_SIZES, "num_key_value_heads": 2, "head_dim": 8}
FAMILIES: dict[str, Any] = {
    "GPT2": {**_SIZES, "attn_pdrop": 0.0}, "GPTNeoX": _SIZES, "Phi3": _GROUPED, "Llama": _GROUPED, "Qwen3": _GROUPED,
    "Gemma2": _GROUPED,
}  # fmt: skip


def family_model(family: str, kind: str, seed: int) -> Any:
    """An untrained model of transformers, with matrices of a kind: queries, keys and values each for themselves."""
    random = np.random.default_rng([seed, 79])
    torch.manual_seed(seed)
    config = getattr(transformers, f"{family}Config")(**FAMILIES[family])
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    joined = {"c_attn": (32, 32, 32), "query_key_value": (32, 32, 32), "qkv_proj": (32, 16, 16)}
    with torch.no_grad():
        for name, module in model.named_modules():
            if not isinstance(module, torch.nn.Linear | Conv1D) or name == "lm_head":
                continue
            weight = module.weight if isinstance(module, torch.nn.Linear) else module.weight.T
            rows = joined.get(name.rpartition(".")[2], (len(weight),))
            parts = [
                _as_large(kind, UNTRAINED[kind](random, n, weight.shape[1]), weight.numpy()[:n])
                * (np.exp(random.normal(size=weight.shape[1])) if kind == "folded gains" and n < len(weight) else 1)
                for n in rows
            ]
            biases = [random.normal(size=n) for n in rows]
            if "query_key_value" in name:  # a block of each for every head
                parts = [np.concatenate([part.reshape(4, 8, -1) for part in parts], 1).reshape(96, -1)]
                biases = [np.concatenate([bias.reshape(4, 8) for bias in biases], 1).ravel()]
            weight.copy_(torch.from_numpy(np.concatenate(parts).astype(np.float32)))
            if kind == "biases" and module.bias is not None and "attn" in name.replace("attention", "attn"):
                module.bias.copy_(torch.from_numpy(np.concatenate(biases).astype(np.float32)))
    return model


def of_families(models: int) -> None:
    """Print a row for each kind: pages with a finding, and with a role, in memory and from folders."""
    began, total, roles = time.perf_counter(), 0, 0
    for kind in UNTRAINED:
        said = Counter[str]()
        for family in FAMILIES:
            for seed in range(models):
                model, tokens = family_model(family, kind, seed), texts(seed, 64, 48, 6).numpy()
                pages = [headway.xray(model, tokens=tokens)]
                if seed == 0:
                    with tempfile.TemporaryDirectory() as folder:
                        model.save_pretrained(folder)
                        pages.append(headway.xray(folder, tokens=tokens))
                abouts = [sorted(f.about for f in page.findings if "composition" not in f.about) for page in pages]
                assert abouts[0] == abouts[-1], (family, kind, abouts)
                said["found"] += bool(abouts[0])
                said["role"] += any(finding.heads for finding in pages[0].findings)
                said.update(f"{family} {about}" for about in abouts[0])
        total, roles = total + said.pop("found"), roles + said["role"]
        print(f"{kind:15} of {models * len(FAMILIES)} pages: {dict(said)}", flush=True)
    n = models * len(FAMILIES) * len(UNTRAINED)
    print(f"{total} of {n} pages have a finding, {roles} name a role; {time.perf_counter() - began:.0f} s")


def of_kind(kind: str, seed: int) -> list[Finding]:
    """The findings of an untrained model; compositions apart, which are read off weights."""
    declared, vocab_size, weights = small_model(kind, seed)
    model = Transformer(declared, vocab_size, weights).eval()
    found = page(model, texts(seed, vocab_size, 48, 6))
    return [finding for finding in found if not finding.about.endswith("_composition")]


def shares_subspace(seed: int) -> tuple[str, list[Finding]]:
    """A layer whose heads all read one subspace: its label, and what the page finds."""
    declared, vocab_size, weights = small_model("usual", seed, Gpt2)  # a turn would change the bases
    random, heads = np.random.default_rng([seed, 78]), declared.layout.layers[0]
    layer = int(random.integers(declared.n_layers))
    queries = weights[f"layers.{layer}.attention.q.weight"].reshape(heads.n_heads, heads.d_head, -1)
    for head in range(1, heads.n_heads):
        queries[head] = _orthogonal(random, heads.d_head, heads.d_head) @ queries[0]
    model = Transformer(declared, vocab_size, weights).eval()
    return f"L{layer}", page(model, texts(seed, vocab_size, 48, 6))


def of_kinds(models: int) -> None:
    """Print a row for each kind, and how many shared subspaces are found."""
    began, total = time.perf_counter(), 0
    for kind in UNTRAINED:
        found = [of_kind(kind, seed) for seed in range(models)]
        about = Counter(finding.about for findings_of in found for finding in findings_of)
        total += sum(map(bool, found)) * (kind != "graded rows")
        print(f"{kind:15} {sum(map(bool, found)):3} of {models} pages have a finding; {dict(about)}", flush=True)
    print(f"without graded rows {total} of {models * (len(UNTRAINED) - 1)}; {time.perf_counter() - began:.0f} s")
    told = [
        any(f"Similar queries (CKA): {label}H" in f.sentence for f in found)
        for label, found in map(shares_subspace, range(models))
    ]
    print(f"shared subspaces: {sum(told)} of {models} found")


def trained(declared: TransformerModel, vocab_size: int, seed: int, draw: Any, steps: int) -> Transformer:
    """A model after some steps of AdamW on batches that are drawn as (inputs, targets); -1 is not asked."""
    model = Transformer(declared, vocab_size, initial_weights(declared, vocab_size, seed))
    random, optimizer = np.random.default_rng(seed), torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    for _ in range(steps):
        inputs, targets = map(torch.from_numpy, draw(random, 64))
        logits = model(inputs)[0]
        torch.nn.functional.cross_entropy(logits[targets >= 0], targets[targets >= 0]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def of_noise(seed: int) -> XRay:
    """The x-ray of a small model that was trained on noise."""
    declared = Gpt2(family="gpt-2", d_model=32, n_layers=2, n_heads=4, n_positions=32)
    noise = lambda random, n: np.split(random.integers(64, size=(2 * n, 32)), 2)  # noqa: E731
    model = trained(declared, 64, seed, noise, 100)
    return headway.xray(model, tokens=np.random.default_rng([seed, 1]).integers(64, size=(16, 32)))


def of_hops(seed: int) -> XRay:
    """The x-ray of a small model of up to one hop, on its own sequences that ask for one."""
    task = HopsTask(kind="hops", letters=4, length=23, hops=1)

    def draw(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        k, sequences = random.integers(2, size=n), letters_without_repeats(random, n, task.length, task.letters)
        at = end_of_hops(sequences, k)
        answers = np.where(at < 0, task.letters, np.take_along_axis(sequences, at.clip(0), axis=1))
        targets = np.concatenate((np.full((n, 1), -1), answers), axis=1)
        return np.concatenate(((task.letters + k)[:, None], sequences), axis=1), targets

    declared = Gpt2(family="gpt-2", d_model=32, n_layers=2, n_heads=2, n_positions=24)
    model = trained(declared, task.vocab_size, seed, draw, 600)
    tokens = draw(np.random.default_rng([seed, 1]), 64)[0]
    return headway.xray(model, tokens=tokens[tokens[:, 0] == task.letters + 1])


class Sorter(torch.nn.Module):
    """One head whose tokens attend to the next larger value that was given, so far as the logits go."""

    def __init__(self, values: int):
        super().__init__()
        self.values, self.anything = values, torch.nn.Parameter(torch.zeros(1))

    def trace(self, tokens: torch.Tensor) -> headway.Trace:
        """What the head does."""
        n = self.values
        x, random = torch.eye(n, 64)[tokens], torch.Generator().manual_seed(1)
        W_Q, W_K = torch.zeros(1, 64, n), torch.eye(64)[None, :, :n]
        W_Q[0, torch.arange(n - 1), torch.arange(1, n)] = 4
        W_V, W_O = torch.randn(1, 64, n, generator=random), torch.randn(1, n, 64, generator=random)
        attention = headway.plain_attention(x, W_Q=W_Q, W_K=W_K, W_V=W_V, W_O=W_O, causal=False, scale=1.0)
        return headway.Trace(attentions=(attention,))


def of_sorter(seed: int, values: int, given: int, draws: int = DRAWS) -> XRay:
    """The x-ray of a head that sorts some of the values."""
    random = torch.Generator().manual_seed(seed)
    tokens = torch.stack([torch.randperm(values, generator=random)[:given] for _ in range(64)])
    return headway.xray(Sorter(values), tokens=tokens, draws=draws)


def of_trained(models: int) -> None:
    """Print a row for each trained model: what its pages have to say."""
    rows: dict[str, tuple[Any, str]] = {
        "hops: an induction head is named": (of_hops, "induction_score"),
        "16 of 20 values sorted: metrics differ": (lambda seed: of_sorter(seed, 20, 16), " differ"),
        "6 of 10 values sorted: metrics differ": (lambda seed: of_sorter(seed, 10, 6), " differ"),
        "6 of 10, 64 draws: metrics differ": (lambda seed: of_sorter(seed, 10, 6, 64), " differ"),
        "noise: a role or a composition is named": (of_noise, "_score |_composition "),
        "noise: any finding": (of_noise, ""),
    }
    for called, (x_ray, words) in rows.items():
        said = sum(
            any(re.search(words, f"{finding.about} {finding.statements[0].kind}") for finding in x_ray(seed).findings)
            for seed in range(models)
        )
        print(f"{called}: {said} of {models} pages", flush=True)


def coverage(seed: int, rows: int, further: int = 32) -> dict[str, tuple[int, int]]:
    """By metric: of further draws, measured at every query, how many lie in the intervals of 16 at some of them."""
    declared, vocab_size, length = drawn_model(seed)
    model = Transformer(declared, vocab_size, initial_weights(declared, vocab_size, seed)).eval()
    reading = redraw.read(model, texts(seed, vocab_size, length, max(2, rows // length)))
    given = {"read": lambda tokens: redraw.read(model, tokens), "repetition": None, "weights": None}
    some = examine_beside_untrained([reading], **given, draws=DRAWS, n_rows=rows)
    others = replace(reading, redraw=lambda draw, some: reading.redraw(DRAWS + draw, some))
    every = examine_beside_untrained([others], **given, draws=further)
    found = {}
    for metric, score in some.items():
        inside = there = 0
        for name, drawn in score.draws.items():
            half = float(student.ppf(0.975, DRAWS - 1)) * drawn.std(0, ddof=1) * (1 + 1 / DRAWS) ** 0.5
            new = every[metric].draws[name]
            counted = np.isfinite(new) & np.isfinite(half) & (half > 1e-6)
            inside += int(((np.abs(new - drawn.mean(0)) <= half) & counted).sum())
            there += int(counted.sum())
        found[metric] = inside, there
    return found


def of_coverage(first: int, rows: int, models: int) -> None:
    """Print a row for each metric: the share of further draws in the intervals."""
    with torch.inference_mode():
        of_models = [coverage(seed, rows) for seed in range(first, first + models)]
    for metric in of_models[0]:
        inside, there = (sum(each[metric][at] for each in of_models if metric in each) for at in (0, 1))
        print(f"{metric:26} {inside / max(1, there):.3f} of {there:,} draws of a head, pair or layer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rows", type=int, default=256, help="tokens of a text")
    parser.add_argument("--coverage", type=int, metavar="MODELS", help="of intervals alone, in so many models")
    parser.add_argument("--kinds", type=int, metavar="MODELS", help="kinds of untrained weights alone, so many of each")
    parser.add_argument(
        "--families", type=int, metavar="MODELS", help="untrained models of transformers, so many of each"
    )
    parser.add_argument("--trained", type=int, metavar="MODELS", help="small trained models alone, so many of each")
    parser.add_argument("--planted", type=int, default=100, help="models with planted heads")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    alone = (
        *((asked.families, of_families), (asked.trained, of_trained), (asked.kinds, of_kinds)),
        (asked.coverage, partial(of_coverage, asked.first, max(asked.rows, 2048))),
    )
    chosen = next((each for each in alone if each[0]), None)
    if chosen is not None:
        models, printed = chosen
        printed(models)
        return
    kinds: Counter[str] = Counter()
    pages, began = 0, time.perf_counter()
    for seed in range(asked.first, asked.first + asked.models):
        declared, found = untrained(seed, asked.rows)
        pages += bool(found)
        kinds.update(finding.about for finding in found)
        for finding in found:
            print(
                f"  {seed}: {declared.layout} d_model {declared.d_model} {declared.model_dump()['family']} "
                f"{declared.norm} {declared.norm_place} {declared.positions} init {declared.init_std} "
                f"windows {declared.windows}: {finding.sentence} p {finding.p:.3g}",
                flush=True,
            )
    print(f"{pages} of {asked.models} pages have a finding; {dict(kinds)}; {time.perf_counter() - began:.0f} s")
    there: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    for seed in range(asked.planted):
        names, found = planted(seed)
        for kind, name in names.items():
            there[kind] += 1
            hits[kind] += is_found(kind, name, found)
            if not is_found(kind, name, found):
                print(f"  {seed}: {kind} {name} is not among {[f.sentence for f in found]}", flush=True)
    for kind, n in there.items():
        print(f"{kind}: {hits[kind]} of {n} found")


if __name__ == "__main__":
    main()
