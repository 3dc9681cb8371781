"""How commands and files reach a host."""
