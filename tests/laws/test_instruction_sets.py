"""What is computed in two ways is the same on other processors: the most sensitive tests, with fewer instructions.

Libraries choose their code by the processor and read at their start from variables how much of it they may use. So a
processor of ten years ago is at hand on each that is newer; what such variables leave, every processor has.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SENSITIVE = (
    "causal/test_importance.py::test_so_many_heads_are_left_and_they_are_the_masked_model",
    "laws/test_transformer.py::test_the_fast_attention_equals_the_reference_in_value_and_gradient",
    "laws/test_transformer.py::test_permuting_the_heads_changes_nothing",
    "models/test_generate.py::test_logits_with_a_cache_equal_those_without",
    "models/test_attention_own.py",
    "icl/test_attention.py::test_prediction_and_gradient_are_those_of_the_reference",
)
"""Those with the most roundings between the two ways, and those that failed where their author had never run them."""

LOWERED = {
    "default": {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
}
THREADS = {"default": 1, "avx2": 2}
TRIED = {"default": SENSITIVE, "avx2": SENSITIVE[1:]}
"""The first, of so many models, takes as long as all others."""


@pytest.mark.slow
@pytest.mark.parametrize("capability", LOWERED)
def test_two_ways_of_computing_agree_on_another_processor(capability):
    threads = str(THREADS[capability])  # that sleep while they wait: others want the cores too
    environment = {
        **os.environ,
        **LOWERED[capability],
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": "passive",
    }
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *options, *TRIED[capability]]
    done = subprocess.run(command, cwd=TESTS, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
