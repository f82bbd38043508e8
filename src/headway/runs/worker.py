"""`python -m headway.runs.worker RUN_DIR`: the former name of `headway.execute.worker`, which job scripts use."""

import sys

from headway.execute.worker import main

if __name__ == "__main__":
    sys.exit(main())
