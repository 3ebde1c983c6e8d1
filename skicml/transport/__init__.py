"""Optimal transport between spaces that share no coordinates."""
