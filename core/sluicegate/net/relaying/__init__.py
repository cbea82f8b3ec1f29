"""The relay of one client connection, and how all of them share the event loop."""
