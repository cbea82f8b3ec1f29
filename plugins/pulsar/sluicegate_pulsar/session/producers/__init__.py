"""Publishing: who publishes to which topic, and whether a message may go on."""
