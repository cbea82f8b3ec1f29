"""Values that all rooms share: a run, its observations, results, verdicts, and the locations of files."""
