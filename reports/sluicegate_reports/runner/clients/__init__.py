"""Stock clients behind one interface: one module for each library."""
