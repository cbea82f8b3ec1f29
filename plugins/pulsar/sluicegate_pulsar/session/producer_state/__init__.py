"""State of one producer, and the memory that it may take."""
