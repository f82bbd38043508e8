"""As a script: a process that is told folders, and answers for each with the code that stands there, or dies of it."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    answers = int(sys.argv[sys.argv.index("--answers") + 1])
    folder, heard = sys.argv[1], b""
    while folder:
        code = int(Path(folder, "code").read_text())
        if code < 0:
            os.kill(os.getpid(), -code)
        os.write(answers, b"%d\n" % code)
        while b"\0" not in heard:
            data = os.read(0, 1000)
            if not data:
                sys.exit()
            heard += data
        name, _, heard = heard.partition(b"\0")
        folder = os.fsdecode(name)
