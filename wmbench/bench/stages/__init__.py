"""The stages of a run, one module each, in the order of `wmbench.bench.pipeline.STAGES`."""
