"""Who acts: tables, functions, models and named agents, each as an `Actor`."""
