import sys
from pathlib import Path

# Worker processes import the echo plugin by name, and so do the tests.
sys.path.append(str(Path(__file__).parents[2]))
