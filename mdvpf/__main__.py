"""``python -m mdvpf`` runs the command `mdvpf`."""

import sys

from mdvpf.cli import main

if __name__ == "__main__":
    sys.exit(main())
