"""How language models are judged: on the same sequences whatever the run, and by what they write."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.small_text import run_of, study_of
from support.tolerance import nearly

from headway.config.metrics import METRICS
from headway.data.text import text_examples
from headway.data.token_store import open_corpus
from headway.errors import DeclarationError, UserError
from headway.train.lm.evaluate import repetition
from headway.train.loop import Milestone, train


def milestones(study, steps=40):
    return {e.step: e for e in train(study, steps=steps, log_every=10) if isinstance(e, Milestone)}


def test_the_conclusion_has_what_the_report_needs_and_every_metric_is_declared():
    study = study_of(model={"d_embed": 12})
    recorded = milestones(study)
    metrics = study.conclude().metrics
    names = {
        "eval_loss_nats",
        "eval_bits_per_byte",
        "text_kept",
        "total_heads",
        "n_layers",
        "n_parameters",
        "tokens",
        "unigram_loss_nats",
        "bigram_loss_nats",
        "entropy_nats",
        "lane_share",
        "repetition",
        "unused_token_share",
    }
    assert set(metrics) == names <= set(METRICS)
    assert metrics["total_heads"] == 6
    assert metrics["tokens"] == 40 * 4 * 24 == recorded[40].metrics["tokens"]
    assert 0 < metrics["entropy_nats"] < metrics["bigram_loss_nats"] < metrics["unigram_loss_nats"]
    assert len(metrics["lane_share"]) == 3
    assert all(0 < share < 1 for share in metrics["lane_share"])
    assert [step for step, event in recorded.items() if "eval_loss_nats" in event.metrics] == [0, 20, 40]
    assert recorded[40].metrics["eval_loss_nats"] < recorded[0].metrics["eval_loss_nats"] - 1
    assert [step for step, event in recorded.items() if event.samples] == [0, 40]
    assert "tokenizer.json" in study.files
    assert study.memory()["memory_bytes"] >= 0


def test_bits_per_byte_are_the_nats_of_the_judged_tokens_over_the_bytes_that_they_stand_for():
    study = study_of()
    metrics = study.conclude().metrics
    examples = text_examples(run_of().task)
    batches = list(examples.evaluation_batches(run_of().evaluation.sequences, 4))
    targets = np.concatenate([batch.targets[batch.targets >= 0] for batch in batches])
    text = "".join(examples.tokenizer.decode([token]) for token in targets if token != examples.tokenizer.end_of_text)
    bits = metrics["eval_loss_nats"] / math.log(2) * len(targets)
    assert metrics["eval_bits_per_byte"] == nearly(bits / len(text.encode()))


def test_tokens_that_do_not_give_the_text_back_have_no_bits_per_byte(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(4_000) % 98)
    metrics = (
        study_of(task={"corpus": f"{tmp_path}/a.npy", "stories": None, "tokenizer": "ids-100", "held_out": 0.1})
        .conclude()
        .metrics
    )
    assert metrics["text_kept"] == 0
    assert "eval_bits_per_byte" not in metrics
    assert metrics["eval_loss_nats"] > 0


def test_the_prompt_that_nobody_asked_for_is_none_where_there_is_no_text(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(4_000) % 98)
    task = {"corpus": f"{tmp_path}/a.npy", "stories": None, "tokenizer": "ids-100", "held_out": 0.1}
    (sample,) = study_of(task=task, samples={"tokens": 4}).measures[1].take().samples
    assert (sample["prompt"], sample["n_tokens"]) == ("", 4)
    with pytest.raises(DeclarationError, match=r"samples.prompt 'Once': with tokenizer ids-100 it is ids, such as"):
        run_of(task=task, samples={"prompt": "Once"})


@pytest.mark.slow
def test_the_evaluation_is_the_mean_over_all_targets_whatever_the_batch_or_the_seed():
    def loss(**over):
        study = study_of(**over)
        study.trainer.restore(1, start)
        return study.conclude().metrics["eval_loss_nats"]

    first = study_of()
    start = {name: array for name, array in first.trainer.state().items() if name.startswith("weights/")}
    assert loss() == nearly(loss(training={"batch_size": 3}), dtype=np.float32)
    assert loss() == nearly(loss(training={"grad_accumulation": 4}), dtype=np.float32)
    assert loss() == loss(seed=5, model={"dropout": 0.5})


@pytest.mark.slow
def test_samples_are_as_long_as_asked_with_their_measures():
    study = study_of(samples={"tokens": 130, "count": 2, "prompt": "The cat"})
    before, after = (event.samples for event in milestones(study).values() if event.samples)
    assert [len(before), len(after)] == [2, 2]
    for sample in (*before, *after):
        assert (sample["prompt"], sample["n_tokens"], sample["temperature"]) == ("The cat", 130, 0.9)
        assert len(sample["repetition"]) == 2
    assert before[0]["text"] != before[1]["text"]
    unused = [np.mean([sample["unused_share"] for sample in samples]) for samples in (before, after)]
    assert unused[0] > 0.5 > unused[1], "tokens that the text never uses vanish from the samples"
    assert study_of(samples=None).conclude().metrics.keys().isdisjoint({"repetition", "unused_token_share"})


def test_repetition_is_the_share_of_fours_that_stood_earlier():
    assert repetition([1, 2, 3]) == []
    assert repetition(range(50)) == [0.0]
    loop = repetition([0, 1, 2, 3, 4] * 40)
    assert loop == [(97 - 5) / 97, 1.0]
    assert repetition([*range(100), *range(100)]) == [0.0, 0.97], "three fours straddle the seam"


def test_a_prompt_of_nothing_begins_a_text_and_one_without_tokens_is_an_error(monkeypatch):
    study = study_of(samples={"prompt": "", "tokens": 4})
    assert study.measures[1].take().samples[0]["n_tokens"] == 4
    tokens = open_corpus(run_of().task)
    monkeypatch.setattr(type(tokens.tokenizer), "encode", lambda *_: [])
    with pytest.raises(UserError, match=r"samples.prompt 'xyz': the tokenizer gives no token for it; give another"):
        study_of(samples={"prompt": "xyz"})


# In a process of its own: what other tests left behind may be freed at any time.
METERED = """
import gc
import numpy as np, torch
from headway.train.process_memory import keep_freed_memory, peak_bytes
from headway.train.device import Meter
keep_freed_memory()
gc.disable()
garbage = [np.ones(20_000_000)]
garbage.append(garbage)
held = np.ones(30_000_000)
del garbage
meter = Meter(torch.device("cpu"))
assert meter.metrics()["memory_bytes"] < peak_bytes() - held.nbytes
gc.collect()
compiling = np.ones(40_000_000)
del compiling
meter.begin_training()
taken = np.ones(10_000_000)
found = meter.metrics()
assert 0.9 * taken.nbytes < found["memory_bytes"] < 2 * taken.nbytes, found
assert found["peak_memory_bytes"] > held.nbytes + taken.nbytes, found
"""


@pytest.mark.slow
def test_memory_is_counted_above_what_was_held_before_garbage_apart():
    subprocess.run([sys.executable, "-c", METERED], check=True)


# In a process of its own: shapes in signatures are checked here, and those checks are not to be compiled.
COMPILED = """
import sys
sys.path.insert(0, {tests!r})
import numpy as np, torch
from support.small_text import run_of
from headway.train.lm.study import open_study
torch.use_deterministic_algorithms(True)
one_layer = {{"n_layers": 1, "n_heads": 2}}
for over in ({{"model": one_layer}}, {{"model": {{**one_layer, "dropout": 0.2}}}}):
    fast, slow = (open_study(run_of(**over), compile=compile, device="cpu") for compile in (True, False))
    assert fast.execution["compile"] and not slow.execution["compile"]
    if "dropout" not in over["model"]:
        judged = [study.conclude().metrics["eval_loss_nats"] for study in (fast, slow)]
        np.testing.assert_allclose(*judged, rtol=1e-5)
    losses = [study.trainer.advance(8) for study in (fast, slow)]
    # Compiled code drops out other entries.
    np.testing.assert_allclose(*losses, rtol=0.2 if "dropout" in over["model"] else 1e-4)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("compiles")
def test_compiled_and_eager_agree():
    code = COMPILED.format(tests=str(Path(__file__).parents[2]))
    subprocess.run([sys.executable, "-c", code], check=True)
