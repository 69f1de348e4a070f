"""`python -m wmbench.cli` is `wmbench`."""

import sys

from wmbench.cli import main

sys.exit(main())
