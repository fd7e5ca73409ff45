"""Print the requirements of the package for one end of what pyproject.toml allows.

`versions.py lowest` pins every dependency to its lower bound; `versions.py newest` leaves all free below their upper
bounds. torch is left out: which build fits is the machine's affair, see TORCH in the Makefile.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))["project"]
for requirement in project["dependencies"]:
    if requirement.startswith("torch"):
        continue
    sys.stdout.write(re.sub(r">=([\w.]+).*", r"==\1", requirement) if sys.argv[1] == "lowest" else requirement)
    sys.stdout.write("\n")
