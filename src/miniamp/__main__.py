"""`python -m miniamp` is the command line."""

import sys

from miniamp.cli import main

sys.exit(main())
