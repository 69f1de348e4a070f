"""Backbones: one module per model family."""
