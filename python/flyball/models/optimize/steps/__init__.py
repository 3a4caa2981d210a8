"""The eleven steps, one file each, in the order of `flyball.models.optimize.all_steps`."""
