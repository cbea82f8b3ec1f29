"""The policy engine of one broker with its plugins, its policies in force and its logs."""
