"""Lessons: worked examples of attention with every number, on the lecture notes' examples or on your own matrices."""

from heed.lessons.lesson import Lesson, list_lessons, run_lesson
from heed.lessons.parts import Check, Moment, Stage, Table

__all__ = ["Check", "Lesson", "Moment", "Stage", "Table", "list_lessons", "run_lesson"]
