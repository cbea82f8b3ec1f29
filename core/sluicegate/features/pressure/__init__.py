"""Where pressure is read that is not of one kind of broker alone: memory of processes, metrics over HTTP."""
