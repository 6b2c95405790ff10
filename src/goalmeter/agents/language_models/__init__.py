"""Language models as agents: how ours are run, and how reference agents pose as one."""
