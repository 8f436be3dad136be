"""`octavo preload`: a process that keeps packed weights of named models in a node's memory. Torch-free."""
