"""Compare this tree with an earlier one: `python benchmarks/against.py COMMIT`; --help says more."""

import sys
from pathlib import Path

# Last, not first: the root also holds folders named like other people's packages.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.against_cli import main

if __name__ == "__main__":
    sys.exit(main())
