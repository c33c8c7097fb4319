# Prints $file as it is.
main() { cat <"$file"; }
