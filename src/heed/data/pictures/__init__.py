"""Pictures: decoded, sized, normalised, augmented."""
