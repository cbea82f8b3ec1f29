"""What is kept of one producer, and how much memory that may take."""
