# Removes one file that was written and is not good.
main() { rm -f -- "$file"; }
