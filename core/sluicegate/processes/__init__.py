"""The processes of a gateway: a supervisor, and one worker or several for each broker."""
