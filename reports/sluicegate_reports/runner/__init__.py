"""Comparison runs: one scenario, played by stock clients against each system through each door.

Nothing here knows Spark. What a run leaves behind is a directory: `run.json` with its facts, `decisions/` as
the gateways wrote them, `observations/` with what the clients saw.
"""
