"""What all sessions of one front share."""
