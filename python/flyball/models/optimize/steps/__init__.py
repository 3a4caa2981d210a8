"""The eleven steps, each in a file of its own, in the order of `flyball.models.optimize.all_steps`."""
