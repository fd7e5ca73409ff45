"""The whole journey in a browser, on this machine only; every step calls the public library."""
