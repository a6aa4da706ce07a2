"""``python -m studies.real_data``."""

from __future__ import annotations

import sys

from studies.real_data.run import main

if __name__ == "__main__":
    sys.exit(main())
