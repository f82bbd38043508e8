"""Verbs on finished models as they are typed: a metric of one's own on any model."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers

METRIC = """
from headway import own

@own.head_metric(sentence="weight of a token on itself", high="looks at itself", unit="0 to 1", null=0.1)
def weight_on_itself(of):
    weights = of.attention.patterns().diagonal(dim1=2, dim2=3)
    return (weights * of.counted[:, None]).sum((0, 2)) / of.counted.sum()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "mine.py").write_text(METRIC)
    np.save(folder / "tokens.npy", np.random.default_rng(0).integers(1, 61, (8, 12)))
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    config = transformers.GPTNeoXConfig(**sizes, vocab_size=61, bos_token_id=0, eos_token_id=0)
    transformers.GPTNeoXForCausalLM(config).save_pretrained(folder / "neox")
    return folder


def verb(folder, *words):
    command = [
        sys.executable,
        "-m",
        "headway",
        *words,
        "--text",
        "tokens.npy",
        "--null-draws",
        "0",
        "--plugin",
        "mine.py",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "plugin mine.py" in done.stderr
    assert "head metric weight_on_itself" in done.stderr
    return done


def test_an_xray_measures_a_metric_of_ones_own(folder):
    found = json.loads(verb(folder, "xray", "neox", "--json").stdout)
    assert "weight_on_itself" in found["metrics"]


@pytest.mark.slow
def test_a_look_shows_a_metric_of_ones_own_and_says_how_it_was_made(folder):
    verb(folder, "look", "neox", "--out", "page.html")
    page = (folder / "page.html").read_text()
    assert "weight of a token on itself" in page
    assert "--plugin mine.py" in page
    assert "--null-draws 0" in page
