"""Start the benchmarks: `python benchmarks/run.py [scenario ...]`; --help and --list say more."""

import sys
from pathlib import Path

# Last, not first: the root also holds folders named like other people's packages.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.cli import main

if __name__ == "__main__":
    sys.exit(main())
