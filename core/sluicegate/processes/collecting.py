"""Settings of the garbage collector for a worker.

A collection blocks the event loop for some 0.2 us per scanned object. Objects that exist when the worker
begins to serve are never scanned again. Young objects are scanned a few thousand at a time, all others
rarely: they are gates and states of topics in use, not garbage.
"""

import gc
from typing import Final

YOUNG: Final = 4_000
"""Net allocations between collections of the youngest objects. Thousands of queued log rows are not garbage,
and the default of 700 would scan them often."""
YOUNG_COLLECTIONS: Final = 2
"""Collections of the youngest generation between those of the middle one: some 16,000 objects."""
MIDDLE_COLLECTIONS: Final = 200
"""Collections of the middle generation before a full one, which needs a quarter of new objects."""


def begin() -> None:
    """Apply the settings to this process, and exempt all existing objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, YOUNG_COLLECTIONS, MIDDLE_COLLECTIONS)
