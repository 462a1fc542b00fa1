"""`python -m pinfold` is the command `pinfold`."""

from .cli import main

raise SystemExit(main())
