"""Acts on versions: rules, signatures, refusals."""
