"""What every process with torch has: context, accelerations, imports, interpreter, memory."""
