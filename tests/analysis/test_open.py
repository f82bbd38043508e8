"""The model behind a path, what it writes, and the verbs `generate` and `export`."""

import shutil

import numpy as np
import pytest
import torch
from support import stored
from support.stored import data
from support.tolerance import assert_same
from support.typed import verb

import headway
from headway.analysis.open import open_model
from headway.data.tokenizer import trained_bpe
from headway.errors import ResultsError, UserError

EXPERIMENT = """
name: tiny
question: Does it write?
task: {kind: text, corpus: stories, stories: 200, tokenizer: bytes, n_ctx: 32}
model: {family: gpt-neo, d_model: 16, n_layers: 2, n_heads: 4-2, n_positions: 64}
training: {optimizer: adamw, learning_rate: 1.0e-2, batch_size: 4, steps: 20}
evaluation: {every: 10, sequences_during: 4, sequences: 8}
samples: {tokens: 8}
arms:
  ragged: {}
  uniform: {model: {n_heads: 4}}
baseline: uniform
seeds: 1
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    (folder / "tiny.yaml").write_text(EXPERIMENT)
    done = verb("run", "tiny.yaml", "--out", "out", "--no-timing", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "out/runs"


@pytest.fixture
def run(runs, tmp_path):
    """A run's folder that a test may spoil."""
    return shutil.copytree(runs / "ragged/seed-0", tmp_path / "runs/ragged/seed-0")


@pytest.mark.slow
def test_a_run_its_checkpoint_and_its_export_are_one_model(runs, tmp_path):
    folder = runs / "ragged/seed-0"
    exported = verb("export", folder, tmp_path / "hf", cwd=tmp_path)
    assert exported.returncode == 0, exported.stderr
    assert exported.stdout == (
        f"headway: {tmp_path / 'hf'}; it has its own code, so load it with trust_remote_code=True\n"
    )
    paths = (folder, folder / "checkpoint", tmp_path / "hf")
    opened = [open_model(path) for path in paths]
    weights = [one.own.weights() for one in opened]
    assert all(np.array_equal(weights[0][name], other[name]) for other in weights[1:] for name in other)
    assert len({one.tokenizer.digest for one in opened}) == 1
    assert [one.n_ctx for one in opened] == [32, 32, 64]
    texts = [verb("generate", path, "--prompt", "Once", "--tokens", 9, cwd=tmp_path) for path in paths]
    assert len({done.stdout for done in texts}) == 1
    assert texts[0].stdout.startswith("Once")


@pytest.mark.slow
def test_a_uniform_run_becomes_a_stock_folder(runs, tmp_path):
    import transformers

    exported = verb("export", runs / "uniform/seed-0", "out", cwd=tmp_path)
    assert (exported.returncode, exported.stdout) == (0, "gpt_neo: out\n"), exported.stderr
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert type(model) is transformers.GPTNeoForCausalLM
    assert model.generation_config.eos_token_id == 256
    again = verb("export", runs / "uniform/seed-0", "out", cwd=tmp_path)
    assert again.returncode == 2
    assert again.stderr == "error: out exists and is not an empty folder; choose another name, or remove it\n"


def test_sampling_follows_its_options(runs):
    opened = open_model(runs / "ragged/seed-0")
    again = [opened.write("Once", seed=seed, temperature=1.0) for seed in (0, 0, 1)]
    assert again[0] == again[1] != again[2]
    greedy = {opened.write("Once", seed=seed, temperature=0.0) for seed in (0, 1)}
    assert greedy == {opened.write("Once", top_k=1, temperature=1.0)} == {opened.write("Once", top_p=1e-9)}


def test_by_default_a_text_stays_within_what_was_trained(runs):
    opened = open_model(runs / "ragged/seed-0")
    assert len(opened.tokenizer.encode(opened.write("Once", temperature=0.0, stop=False))) == 32
    with pytest.warns(RuntimeWarning, match="the text has 40 tokens, but the model was trained on 32"):
        opened.write("Once", n_tokens=36, temperature=0.0, stop=False)
    with pytest.raises(UserError, match=r"4 tokens of the prompt and 61 more are 65, but the model takes 64"):
        opened.write("Once", n_tokens=61)


def test_an_empty_prompt_begins_a_text_and_the_end_of_text_ends_it(runs):
    opened = open_model(runs / "ragged/seed-0")
    opened.own.embedding.weight.data.zero_()
    opened.own.embedding.weight.data[256, 0] = 1.0
    opened.own.norm.bias.data[0] = 100.0  # every next token is the end of the text
    assert opened.write("", n_tokens=3) == ""
    assert opened.write("Once", n_tokens=3) == "Once"
    assert opened.write("Once", n_tokens=3, stop=False) == "Once" + 3 * "<|endoftext|>"


def test_an_unfinished_run_says_how_far_it_is(run):
    stored.rewrite(run, status="failed", message="out of memory")
    with pytest.raises(
        UserError, match=r"seed-0: the run is failed \(out of memory\), and its checkpoint is of step 20"
    ):
        open_model(run)
    for file in (run / "checkpoint").iterdir():
        file.unlink()
    stored.rewrite(run, status="interrupted", message="")
    with pytest.raises(UserError, match=r"the run is interrupted, and it has no checkpoint yet; `headway run` on its"):
        open_model(run)
    stored.rewrite(run, status="done", message="")
    with pytest.raises(ResultsError, match="the checkpoint of its last step is missing"):
        open_model(run)


def test_a_tokenizer_that_does_not_fit(run):
    trained_bpe(["a dog and a dog and a dog"], 260).save(run)
    with pytest.raises(UserError, match=r"seed-0: tokenizer\.json has 2,798 bytes instead of 2,738; `headway drop"):
        open_model(run)
    stored.seal(run)
    expected = r"seed-0: the tokenizer has 260 tokens, but the model has 257; give the tokenizer that the model was"
    with pytest.raises(UserError, match=expected):
        open_model(run)
    assert open_model(run, "bytes").tokenizer.vocab_size == 257
    with pytest.raises(UserError, match=r"tokenizer bpe-300 depends on its corpus; give the folder of its"):
        open_model(run, "bpe-300")
    gpt2 = data("gpt2-bpe")
    with pytest.raises(UserError, match="the tokenizer has 50257 tokens, but the model has 257"):
        open_model(run, str(gpt2))


@pytest.mark.slow
def test_no_tokenizer(run, tmp_path):
    (run / "tokenizer.json").unlink()
    with pytest.raises(
        UserError, match=r"has no tokenizer; tokenizer: give the model's tokenizer, as a folder, bytes or gpt2"
    ):
        open_model(run).write("Once")
    exported = verb("export", run, tmp_path / "out", cwd=tmp_path)
    assert exported.returncode == 0
    assert exported.stderr == f"warning: {run} has no tokenizer, so {tmp_path / 'out'} has none\n"


@pytest.mark.parametrize(("name", "folder"), [("gpt2", "gpt2"), ("roneneldan/TinyStories-33M", "TinyStories-33M")])
def test_a_name_of_the_hub_is_answered_with_the_line_that_downloads_it(name, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        open_model(name)
    assert str(error.value).endswith(f"if this one is on the hub: hf download {name} --local-dir {folder}")
    for no_name in (tmp_path / "nowhere", "nothere"):
        with pytest.raises(UserError) as error:
            open_model(no_name)
        assert "hf download" not in str(error.value)


def test_paths_that_hold_no_language_model(runs, tmp_path):
    kinds = r"give a run's folder \(DIR/runs/ARM/seed-N\), its checkpoint, or a folder of Hugging Face"
    with pytest.raises(UserError, match=f"nowhere: there is no such folder; {kinds}"):
        open_model(tmp_path / "nowhere")
    with pytest.raises(UserError, match=f"it is empty; {kinds}"):
        open_model(tmp_path)
    for name in "abcde":
        (tmp_path / f"{name}.npz").write_bytes(b"")
    with pytest.raises(
        UserError, match=r"\(there is a.npz, b.npz, c.npz, d.npz, ...\); give a run's .*, call save_pretrained"
    ):
        open_model(tmp_path)
    with pytest.raises(UserError, match=f"tiny.yaml: it is a file; {kinds}"):
        open_model(runs / "../../tiny.yaml")
    with pytest.raises(UserError, match="it is a results directory with 2 runs; give one of them, such as"):
        open_model(runs.parent)


@pytest.mark.slow
def test_a_model_of_others_is_measured_but_does_not_write(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPTNeoXConfig(
        vocab_size=257, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32
    )
    transformers.GPTNeoXForCausalLM(config).save_pretrained(tmp_path / "neox")
    opened = open_model(tmp_path / "neox", "bytes")
    assert repr(opened) == "Opened(neox, architecture: GPTNeoXForCausalLM, kind: causal)"
    assert opened.trace("a dog").attentions[0].q.shape == (1, 4, 5, 4)
    message = "neox is a GPTNeoXForCausalLM, which Headway cannot load as its own model. Its heads can be measured"
    with pytest.raises(UserError, match=message):
        opened.write("a dog")
    for words in (("generate", tmp_path / "neox"), ("export", tmp_path / "neox", tmp_path / "out")):
        done = verb(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: {message}, but only Headway's own models generate text or are")
    assert not (tmp_path / "out").exists()


def test_a_text_and_tokens_of_every_kind_are_traced(runs):
    opened = headway.open_model(headway.open(runs.parent).run("ragged", 0).path)
    ids = list(b"a dog and a cat")
    of_text = opened.trace("a dog and a cat")
    assert [attention.q.shape for attention in of_text.attentions] == [(1, 4, 15, 4), (1, 2, 15, 8)]
    one = [ids, tuple(ids), np.array(ids), np.array(ids, np.uint16), torch.tensor(ids), [ids], torch.tensor([ids])]
    for tokens in one:
        traced = opened.trace(tokens)
        for found, expected in zip(traced.attentions, of_text.attentions, strict=True):
            assert torch.equal(found.z, expected.z)
    two = opened.trace([ids, ids[::-1]])
    assert two.attentions[0].z.shape == (2, 4, 15, 4)
    assert_same(two.attentions[0].z[:1], of_text.attentions[0].z)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[1, 2], [3]], "sequences of different lengths were given; give sequences of one length at a time"),
        ([], r"whole numbers of shape \(pos\) or \(batch, pos\); .* of shape \(0,\) and type float64"),
        ("", r"you gave an array of shape \(0,\) and type float64"),
        (3, r"you gave an array of shape \(\) and type int64"),
        ([1.5, 2.0], r"you gave an array of shape \(2,\) and type float64"),
        (np.zeros((1, 2, 3), int), r"you gave an array of shape \(1, 2, 3\) and type int64"),
        ([True, False], "and type bool"),
        (["a dog", "dogs"], "sequences of different lengths were given"),
        ([1, 257], "token 257 was given, but the model out-ragged-seed-0 has tokens 0 to 256; tokenizer: give the"),
        ([-1, 3], "token -1 was given, but the model"),
        ([0] * 65, "a text of 65 tokens was given, but out-ragged-seed-0 reads 64 at most; give a shorter one"),
    ],
)
def test_what_cannot_be_traced_says_why(given, message, runs):
    with pytest.raises(UserError, match=message):
        open_model(runs / "ragged/seed-0").trace(given)


def test_messages_are_right_from_python_as_on_the_command_line(run):
    """None of them speaks of an option's dashes."""
    (run / "tokenizer.json").unlink()
    said = []
    for ask in (
        lambda: open_model(run).write("Once"),
        lambda: open_model(run).trace("Once"),
        lambda: open_model(run, "bpe-300"),
        lambda: open_model(run, "nowhere"),
        lambda: open_model(run, for_="tracing"),
        lambda: headway.xray(run, text="nowhere.txt"),
        lambda: headway.xray(run, text="stories", length=999),
        lambda: headway.xray(run, text="stories", sequences=0),
        lambda: headway.xray(run, text="stories", device="tpu"),
        lambda: headway.xray(run, text="stories"),
        lambda: headway.hf.load(run),
        lambda: headway.hf.trace(None, None),
    ):
        with pytest.raises(UserError) as error:
            ask()
        said.append(str(error.value))
    assert len(set(said)) >= 9
    assert not [message for message in said if "--" in message]


def test_a_run_of_the_other_laboratory(tmp_path):
    settings = ["training.steps=50", "evaluation.prompts=100", "evaluation.curve=null"]
    experiment = headway.load("icl-heads", settings=settings).select(arms=["h1"])
    from headway.store.directory import Store

    store = Store.create(tmp_path / "icl", experiment)
    folder = store.add(*experiment.runs[0]).path
    with pytest.raises(UserError, match="it is a run of the in-context laboratory, which has no text"):
        open_model(folder)
