"""What happened to a service, told once as Events: what is worth telling (`notes`), and how it is told (`journal`)."""
