"""How the lab's own models are made: tokenizer, backbone, judge, encoder."""
