"""Lessons: attention worked out by hand, with every number, on the notes' examples and on matrices of one's own."""

from heed.lessons.files import list_lessons
from heed.lessons.lesson import Lesson, run_lesson
from heed.lessons.parts import Check, Moment, Stage, Table

__all__ = ["Check", "Lesson", "Moment", "Stage", "Table", "list_lessons", "run_lesson"]
