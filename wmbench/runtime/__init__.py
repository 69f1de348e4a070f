"""The shared diffusion runtime: one denoising loop for all schemes and all backbones."""
