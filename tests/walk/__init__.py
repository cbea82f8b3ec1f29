"""The profiling walk: which files of the product one message passes through, in which order."""
