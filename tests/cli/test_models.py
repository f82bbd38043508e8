"""Verbs on finished models as they are typed: a metric of one's own on any model."""

import json

import numpy as np
import torch
import transformers
from support.own_code import write as write
from support.typed import typed

METRIC = """
from headway import own

@own.head_metric(sentence="weight of a token on itself", high="looks at itself", unit="0 to 1", null=0.1)
def weight_on_itself(of):
    weights = of.attention.patterns().diagonal(dim1=2, dim2=3)
    return (weights * of.counted[:, None]).sum((0, 2)) / of.counted.sum()
"""


def test_a_metric_of_ones_own_is_measured_and_shown_on_a_page_that_says_how_it_was_made(write, tmp_path):
    write(METRIC)
    np.save(tmp_path / "tokens.npy", np.random.default_rng(0).integers(1, 61, (8, 12)))
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    config = transformers.GPTNeoXConfig(**sizes, vocab_size=61, bos_token_id=0, eos_token_id=0)
    transformers.GPTNeoXForCausalLM(config).save_pretrained(tmp_path / "neox")

    def verb(*words):
        done = typed(*words, "--text", "tokens.npy", "--null-draws", "0", "--plugin", "mine.py", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done

    done = verb("xray", "neox", "--json")
    assert "plugin mine.py" in done.stderr
    assert "head metric weight_on_itself" in done.stderr
    assert "weight_on_itself" in json.loads(done.stdout)["metrics"]
    verb("look", "neox", "--out", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "weight of a token on itself" in page
    assert "--plugin mine.py" in page
    assert "--null-draws 0" in page
