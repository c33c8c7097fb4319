package patches

import "bytes"

// utf8BOM may stand before the first line of a Python file and must stay there.
var utf8BOM = []byte("\xef\xbb\xbf")

// line is one line of a file: its bytes, and the line end after it, which is
// empty only on a last line without one.
type line struct{ text, end []byte }

// splitLines cuts bytes at LF, CRLF and lone CR, as Python does. Joining text
// and end of all lines gives the bytes back.
func splitLines(b []byte) []line {
	var lines []line
	for len(b) > 0 {
		i := bytes.IndexAny(b, "\r\n")
		if i < 0 {
			return append(lines, line{text: b})
		}
		n := 1
		if b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n' {
			n = 2
		}
		lines = append(lines, line{text: b[:i], end: b[i : i+n]})
		b = b[i+n:]
	}
	return lines
}

// dominantEnd is the line end that most lines have; LF when none has one or
// two are equally common and LF is among them.
func dominantEnd(lines []line) string {
	n := map[string]int{}
	for _, l := range lines {
		n[string(l.end)]++
	}
	best := "\n"
	for _, end := range []string{"\r\n", "\r"} {
		if n[end] > n[best] {
			best = end
		}
	}
	return best
}

// withEnds gives LF text the wanted line ends.
func withEnds(text []byte, end string) []byte {
	if end == "\n" {
		return text
	}
	return bytes.ReplaceAll(text, []byte("\n"), []byte(end))
}
