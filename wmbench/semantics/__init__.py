"""Meaning as vectors: sentence encoders, a cache for their embeddings, and the training of new ones."""
