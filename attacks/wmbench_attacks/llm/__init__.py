"""Attacks by a large language model behind an OpenAI-compatible endpoint.

config.py    settings
prompts.py   what the model is told: versioned and hashed
attack.py    the attacks: cut a text into pieces, have each rewritten, put it together again
rewriter.py  one piece: ask, check the answer and its length, ask again
endpoint.py  one answer: call, wait, retry; what cannot be mended stops the run
cache.py     answers on disk: nothing is paid twice
budget.py    calls and money of this command
"""
