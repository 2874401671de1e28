"""What a firmware engineer gets beside a program: sources, build settings, a note of one page."""
