"""Looking inside models that read pictures: where they looked, laid over the picture. Knows no task."""
