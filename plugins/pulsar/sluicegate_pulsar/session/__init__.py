"""The session of one client connection, without input, output or a clock."""
