"""From a configuration to finished files: prompts, run store, pipeline stages."""
