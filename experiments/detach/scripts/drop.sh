# Removes a file that was packed for a transfer. In: FILE.

main() { rm -f "$FILE"; }
