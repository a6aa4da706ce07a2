"""``python -m understudy``."""

from understudy.cli import main

main()
