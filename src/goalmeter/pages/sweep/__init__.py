"""What a report shows of sweeps: means by policy and utility, curves over arguments, failures."""
