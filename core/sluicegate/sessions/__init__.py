"""What sessions of every protocol need; it does no input or output and knows no clock."""
