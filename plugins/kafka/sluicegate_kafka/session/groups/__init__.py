"""Consumer groups: who consumes what, and whether it may."""
