"""What is measured; each module holds the scenarios of one kind."""
