# Gives a pushed worker its name. In: FROM TO.

main() { mv -f "$FROM" "$TO"; }
