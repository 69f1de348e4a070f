"""Published checkpoints on the native classes of transformers: no remote code is ever run.

Read in this order: `directory.py` (what lies on disk), `keys.py` and `families.py` (which configurations are covered, and
how tensors are named), `weights.py` (streaming), `carrier.py` (the model), `backbone.py` (the `Backbone` protocol).
"""
