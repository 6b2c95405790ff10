"""Published trajectories of GPT-OSS-20B, measured again from their steps."""
