"""The jobs: they read, have transforms compute, and assemble the rows into results."""
