"""As a script: join the work on a directory, as `headway worker` does."""

import sys
from collections import deque
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from headway.execute.join import Joining
from headway.execute.sweep import ExecutionOptions
from support import quadratic

if __name__ == "__main__":
    joining = Joining(
        directory=Path(sys.argv[1]),
        options=ExecutionOptions(workers=2, device="cpu", command=quadratic.WORKER),
    )
    try:
        joining.work(partial(deque, maxlen=0), print)
    except KeyboardInterrupt:
        sys.exit(130)
