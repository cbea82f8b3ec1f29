"""When the garbage collector of a worker runs, and what it scans.

A collection blocks the event loop, some 0.2 us for each scanned object. Objects that live when the worker
begins to serve are never scanned again. Young ones are scanned a few thousand at a time. All others are
scanned rarely: they are gates and states of topics in use, no garbage.
"""

import gc
from typing import Final

YOUNG: Final = 4_000
"""Objects that come, less those that go, until the youngest are looked at. Log rows wait by the thousand and
are no garbage, so the default of 700 would look at them often."""
YOUNG_COLLECTIONS: Final = 2
"""Collections of the youngest after which those that outlived one are looked at too: some 16,000 objects."""
MIDDLE_COLLECTIONS: Final = 200
"""Collections of these after which all objects may be looked at, if a quarter of them is new by then."""


def begin() -> None:
    """Apply this to the process; objects that live now are exempt for good."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, YOUNG_COLLECTIONS, MIDDLE_COLLECTIONS)
