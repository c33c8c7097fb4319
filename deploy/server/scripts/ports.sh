# In: PORT. Prints who listens on it.
main() { holders "$PORT"; }
