"""Version of skicml."""

__version__ = "0.1.0.dev0"
