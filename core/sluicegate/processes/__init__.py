"""The processes of a gateway: a supervisor, and one worker for each broker."""
