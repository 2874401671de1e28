"""The user's model: loaded from any form, and executed as its code returned it."""
