"""As a script: a process that is told folders, and answers for each with what stands there, or dies of it."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    answers = int(sys.argv[sys.argv.index("--answers") + 1])
    folder, heard = sys.argv[1], b""
    while folder:
        answer = Path(folder, "code").read_text()
        if answer.startswith("-"):
            os.kill(os.getpid(), -int(answer))
        os.write(answers, answer.encode() + b"\n")
        while b"\0" not in heard:
            data = os.read(0, 1000)
            if not data:
                sys.exit()
            heard += data
        name, _, heard = heard.partition(b"\0")
        folder = os.fsdecode(name)
