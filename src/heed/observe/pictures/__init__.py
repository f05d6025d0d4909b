"""Looks at models that read pictures: attention drawn over the picture. Independent of tasks."""
