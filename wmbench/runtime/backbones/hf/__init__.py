"""Published checkpoints on the native classes of transformers: no remote code is ever run.

Read in this order: `directory.py` (what lies on disk), `family.py` and `llada.py` (which configurations are covered,
how tensors are named), `weights.py` (streaming), `carrier.py` (the model), `backbone.py` (the `Backbone` protocol).
"""
