"""`headway prune`: ordinary models of other layouts, what they cost, and everything that cannot be pruned."""

import json

import numpy as np
import pytest
import torch
from support.drawn import STOCK, weights_of
from support.small_text import STORIES
from support.tolerance import assert_same
from support.typed import verb

import headway
from headway.causal.importance import PruningText, at_random
from headway.config.lm.head_units import units_of
from headway.config.lm.model import GptNeo, Llama
from headway.data.tokenizer import bytes_tokenizer
from headway.errors import UserError
from headway.hf.write import export
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

GROUPED = Llama(family="llama", d_model=16, n_layers=2, n_heads="4:2-4:2", n_positions=64, init_std=0.3)
PLAIN = GptNeo(family="gpt-neo", d_model=16, n_layers=2, n_heads=4, n_positions=64, windows=(None, 8), init_std=0.3)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "stories.txt"
    path.write_text(STORIES)
    return path


def folder(path, model):
    export(model, 257, initial_weights(model, 257, seed=0), path, bytes_tokenizer())
    return path


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    return folder(tmp_path_factory.mktemp("models") / "grouped", GROUPED)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return folder(tmp_path_factory.mktemp("models") / "plain", PLAIN)


NOTHING = {"inputs": torch.zeros(1, 2, dtype=torch.long), "targets": torch.zeros(1, 2, dtype=torch.long), "at_once": 1}
SMALL = {"sequences": 3, "length": 24}


@pytest.mark.slow
@pytest.mark.parametrize("by", ["alike", "taylor"])
def test_the_folder_is_an_ordinary_model_without_the_heads(by, plain, text, tmp_path):
    found = headway.prune(plain, by=by, keep=5, text=text, out=tmp_path / "small", steps=2, **SMALL)
    assert found.model.model.layout.total == len(found.kept) == 5
    read = headway.hf.load(tmp_path / "small")
    assert read.model.layout == found.model.model.layout
    tokens = torch.randint(0, 257, (2, 20), generator=torch.Generator().manual_seed(0))
    gates = [torch.tensor([float((layer, head) in found.kept) for head in range(4)]) for layer in range(2)]
    with torch.no_grad():
        masked = headway.hf.load(plain)(tokens, gates=gates)[0]
        assert_same(read(tokens)[0], masked, dtype=np.float32)
    again = headway.ablate(tmp_path / "small", text=text, sequences=2, length=24)
    assert len(again.exact.single["mean"].flat()) == 5


def test_what_it_costs_and_saves_is_measured(grouped, text, tmp_path):
    (tmp_path / "other.txt").write_text("A fish swam up, and down, and up again, for it was bored of the reeds. " * 9)
    found = headway.prune(grouped, by="taylor", keep="50%", text=text, held_out=tmp_path / "other.txt", **SMALL)
    assert found.folder is None
    assert set(found.losses) == {"text", "held_out"}
    for change in found.losses.values():
        low, high = change.interval
        assert low < change.after - change.before < high
    assert found.after.parameters < found.before.parameters
    assert found.after.parameters == sum(parameter.numel() for parameter in found.model.parameters())
    for cost in (found.before, found.after):
        assert cost.forward_s > 0
        assert cost.step_s > cost.forward_s / 2
        assert cost.step_memory_bytes >= 0
    layouts, *losses, parameters, step = found.sentences
    assert layouts.startswith("Heads kept by taylor: 4 (rounds of pruning: ")
    assert " Heads by layer: 4 on 2 KV heads, 4 on 2 KV heads before, " in layouts
    assert [sentence.partition(":")[0] for sentence in losses] == [f"Loss on {text}", f"Loss on {tmp_path}/other.txt"]
    assert parameters == f"Parameters: {found.before.parameters:,} before, {found.after.parameters:,} after."
    assert step.startswith("Memory of a forward and backward pass of 72 tokens: ")
    content = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert len(content["kept"]) == 4


def test_a_uniform_layout_keeps_the_format_of_hugging_face(grouped, text, tmp_path):
    transformers = pytest.importorskip("transformers")
    units = units_of(GROUPED.layout)
    model = headway.hf.load(grouped)
    orders = (at_random(model, units, PruningText(**NOTHING, seed=seed)) for seed in range(200))
    keep = next(seed for seed, order in enumerate(orders) if {units[at][0][0] for at in order[:2]} == {0, 1})
    found = headway.prune(grouped, by="random", keep=4, text=text, out=tmp_path / "half", seed=keep, **SMALL)
    assert found.folder == (tmp_path / "half", "llama")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "half").eval()
    given = torch.from_numpy(tokens(2))
    with torch.no_grad():
        assert_same(model(given).logits, found.model(given)[0], dtype=np.float32)


PROJECTIONS = {
    "gpt2": "transformer.h.{}.attn.c_proj",
    "gpt_neo": "transformer.h.{}.attn.attention.out_proj",
    "llama": "model.layers.{}.self_attn.o_proj",
    "mistral": "model.layers.{}.self_attn.o_proj",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STOCK)
def test_every_architecture_that_is_pruned_loses_what_a_mask_takes(name, tmp_path):
    """The model of transformers without the heads' rows of its own projections, and what it reads of the folder."""
    transformers = pytest.importorskip("transformers")
    model_type, declared = STOCK[name]
    assert export(declared, 257, weights_of(declared), tmp_path / "whole", bytes_tokenizer()) == model_type
    keep = declared.layout.total // 2
    found = headway.prune(tmp_path / "whole", by="random", keep=keep, text=tokens(4), out=tmp_path / "small")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "whole").eval()
    small = headway.hf.open_pretrained(tmp_path / "small").model
    given = torch.from_numpy(tokens(2))
    with torch.no_grad():
        for layer, heads in enumerate(declared.layout.layers):
            projection = theirs.get_submodule(PROJECTIONS[model_type].format(layer))
            by_input = projection.weight if model_type == "gpt2" else projection.weight.T
            for head in set(range(heads.n_heads)) - {head for at, head in found.kept if at == layer}:
                by_input[head * heads.d_head : (head + 1) * heads.d_head] = 0
        assert_same(small(given).logits, theirs(given).logits, dtype=np.float32)


def tokens(n):
    return np.random.default_rng(0).integers(0, 257, (n, 9))


def test_a_layer_may_lose_all_heads(text, tmp_path):
    weights = initial_weights(PLAIN, 257, seed=0)
    weights["layers.0.attention.v.weight"] = weights["layers.0.attention.v.weight"] * 0
    module = Transformer(PLAIN, 257, weights).eval()
    found = headway.prune(module, by="magnitude", keep=3, text=tokens(4), out=tmp_path / "out")
    assert found.model.model.layout.n_heads == (0, 3)
    assert found.model.model.emptied == (0,)
    given = torch.from_numpy(tokens(2))
    with torch.no_grad():
        assert_same(headway.hf.load(tmp_path / "out")(given)[0], found.model(given)[0])


@pytest.mark.slow
def test_the_verb(grouped, text, tmp_path):
    words = ("--text", text, "--out", "small", "--sequences", 3, "--length", 24, "--steps", 2)
    done = verb("prune", grouped, "--by", "ablation", "--keep", 0.5, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("* Heads kept by ablation: 4 (rounds of pruning: 2). Heads by layer: 4 on 2 KV heads")
    assert "step 1 of 2: from 8 heads to 6" in done.stderr
    assert done.stdout.splitlines()[-1].startswith(
        ("headway: small; it has its own code, so load it with trust_remote_code", "llama: small")
    )
    assert json.loads((tmp_path / "small/pruning.json").read_text())["of"] == "grouped"


def refused(said, *arguments, **options):
    with pytest.raises(UserError, match=said):
        headway.prune(*arguments, **{"by": "random", "keep": 4, **SMALL, **options})


def test_what_cannot_be_pruned(grouped, plain, text, tmp_path):
    refused("keep 0: that is none of 8 heads; give from 1 to 7", plain, text=text, keep=0)
    refused("and 3 would take one without its KV head; give 2 or 4", grouped, text=text, keep=3)
    refused("by tailor: there is no such method; did you mean taylor", plain, text=text, by="tailor")
    refused("0 steps were asked for", plain, text=text, steps=0)
    refused("it has only .* tokens, fewer than one sequence of 24", plain, text=short(tmp_path))
    refused("held_out .*: it has only .* tokens", plain, text=text, held_out=short(tmp_path))
    refused("more should be pruned, but this method can prune only", plain, text=text, by="alike", keep=1)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("")
    refused("full exists and is not an empty folder; choose another name", plain, text=text, out=tmp_path / "full")


def short(tmp_path):
    (tmp_path / "short.txt").write_text("A heron.")
    return tmp_path / "short.txt"
