"""What holds for all tests."""

from hypothesis import settings

# A busy machine takes what time it likes for one example; pytest's own limit ends what never ends.
settings.register_profile("no deadline", parent=settings(), deadline=None)
settings.load_profile("no deadline")
