"""The command line: `prepose …`, `python -m prepose …`."""

from __future__ import annotations

import signal
import sys

from prepose import _prepose


def main() -> None:
    """Runs the command line on this process's arguments, and ends the process with its exit code."""
    # Signals are the command line's own business here: Python would only look at them when it is over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = _prepose.main(["prepose", *sys.argv[1:]])
    sys.exit(code)


if __name__ == "__main__":
    main()
