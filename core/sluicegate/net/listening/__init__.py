"""Listening sockets: opened, shared between processes, and handed to the next gateway."""
