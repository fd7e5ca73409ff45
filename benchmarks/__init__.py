"""Measurements that a reader can repeat: ratios in one run, never bare times."""

import os

os.environ.setdefault(
    "KINETO_LOG_LEVEL", "99"
)  # read by torch's profiler when it is loaded: no diary on the console
