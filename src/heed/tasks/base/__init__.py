"""The contracts and parts that tasks share; nothing here names a task."""
