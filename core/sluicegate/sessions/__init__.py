"""Code shared by the sessions of all protocols, without I/O or clock."""
