"""Ctrl-C while modules are imported ends the command line with 130 and a sentence, and without a traceback."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupts())
sys.argv = ["headway", *{words!r}]
from headway.__main__ import main
main()
"""

MOMENTS = [
    ("headway.cli", ["list"]),
    ("headway.cli.models", ["list"]),
    ("headway.base.text", ["compare", "nowhere"]),
    ("numpy", ["plan", "icl-heads"]),
    ("headway.analysis.xray", ["xray", "nowhere"]),
]


@pytest.mark.parametrize(("module", "words"), MOMENTS)
def test_an_interrupt_while_a_module_is_imported_ends_without_a_traceback(module, words):
    program = PROGRAM.format(module=module, words=words)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 130, ended.stderr
    assert ended.stderr.startswith("interrupted; ")
