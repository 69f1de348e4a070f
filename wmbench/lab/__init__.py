"""The lab: a small, complete world of our own text, models and attacks."""
