"""The benchmarks are no part of the wheel: tests reach them in the tree that they stand in."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
