"""Publishing: admission of producers and messages."""
