"""`python -m sluicegate`: the same as the command `sluicegate`."""

from sluicegate.cli import main

main(prog_name="sluicegate")
