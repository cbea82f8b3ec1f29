"""The jobs: thin, they read, let transforms compute, and put the rows where they belong."""
