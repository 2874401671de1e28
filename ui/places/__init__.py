"""What runs where: operators on the CPU, what can be done about them, what that has gained."""
