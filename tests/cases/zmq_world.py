"""Patience, for now."""

PATIENCE_S = 10.0
