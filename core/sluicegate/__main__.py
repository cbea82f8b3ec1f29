"""`python -m sluicegate`: the same as the command `sluicegate`."""

import os
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd():
    # `python -m` searches the working directory first: a file there could take the place of any module that
    # is imported from here on, and a plugin there would be missing in the processes that this one starts.
    del sys.path[0]

from sluicegate.cli import main

main(prog_name="sluicegate")
