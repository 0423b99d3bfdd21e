"""The shell as a program of the package."""

import os
import signal
import sys

from ._core import run_shell


def main() -> None:
    """Runs ``similarity-cli`` with the arguments of this process."""
    # Ctrl-C is the shell's, not Python's
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    status = run_shell(["similarity-cli", *sys.argv[1:]])
    sys.stdout.flush()
    # threads of a query that was interrupted are not waited for
    os._exit(status)
