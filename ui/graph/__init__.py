"""The drawing of a program: one painted widget, its scene, camera and marks."""
