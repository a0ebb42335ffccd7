"""`python -m remat_profiler`."""

import sys

from .cli import main

sys.exit(main())
