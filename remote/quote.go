package remote

import (
	"fmt"
	"strings"
)

// Quote returns s as one word of a POSIX shell: in single quotes, which are
// closed, written as an escaped quote and opened again where s has one. It
// refuses a NUL byte, which no shell word and no argument can hold. The result
// is one word for csh and fish too, as long as s has no "!" and no newline.
func Quote(s string) (string, error) {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return "", fmt.Errorf("quote for the shell: NUL byte at position %d", i)
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'", nil
}
