"""What can be changed on a host, each with its way back."""
