"""The eleven steps, in the order of `flyball.models.optimize.all_steps`."""
