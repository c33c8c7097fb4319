package metrics

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// maxLine bounds the memory for one physical line. A longer one is cut there
// and its rest skipped, with a warning.
const maxLine = 8 << 20

// line is one physical line: the bytes up to LF or CR, cleaned.
type line struct {
	num        int   // 1-based, counts LF
	start, end int64 // byte offsets; end is behind the terminator
	text       string
	terminated bool // false only for what follows the last LF or CR
}

// splitter turns chunks into lines. It keeps at most one incomplete line.
type splitter struct {
	buf     []byte
	start   int64 // offset of the first byte of the pending line
	pos     int64 // offset of the next byte to come
	num     int   // LF seen
	dropped bool  // the pending line is past maxLine
	long    int   // lines that were cut
}

// write hands each complete line to f.
func (s *splitter) write(p []byte, f func(line)) {
	for len(p) > 0 {
		i := bytes.IndexAny(p, "\n\r")
		if i < 0 {
			s.hold(p)
			s.pos += int64(len(p))
			return
		}
		s.hold(p[:i])
		s.pos += int64(i) + 1
		s.emit(true, f)
		if p[i] == '\n' {
			s.num++
		}
		p = p[i+1:]
	}
}

// flush hands over what follows the last terminator.
func (s *splitter) flush(f func(line)) {
	if len(s.buf) > 0 {
		s.emit(false, f)
	}
}

func (s *splitter) hold(p []byte) {
	if room := maxLine - len(s.buf); len(p) > room {
		p = p[:room]
		if !s.dropped {
			s.dropped = true
			s.long++
		}
	}
	s.buf = append(s.buf, p...)
}

func (s *splitter) emit(terminated bool, f func(line)) {
	l := line{num: s.num + 1, start: s.start, end: s.pos, terminated: terminated, text: clean(s.buf)}
	s.buf, s.start, s.dropped = s.buf[:0], s.pos, false
	if cap(s.buf) > 1<<20 {
		s.buf = nil
	}
	if l.text != "" {
		f(l)
	}
}

// clean removes what is no text: NUL, BOM, terminal control sequences; invalid
// UTF-8 becomes U+FFFD.
func clean(b []byte) string {
	for len(b) > 0 && b[0] == 0 { // a hole, or lines that were left out on the way
		b = b[1:]
	}
	if plainASCII(b) {
		return string(b)
	}
	b = bytes.ReplaceAll(b, []byte{0}, nil)
	b = bytes.ReplaceAll(b, []byte("\ufeff"), nil)
	s := string(b)
	if strings.IndexByte(s, 0x1b) >= 0 {
		s = stripEscapes(s)
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	return s
}

func plainASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 || c == 0 || c == 0x1b {
			return false
		}
	}
	return true
}

// stripEscapes removes CSI sequences (ESC [ ... letter), OSC sequences
// (ESC ] ... BEL or ESC \) and two-byte escapes.
func stripEscapes(s string) string {
	var out strings.Builder
	out.Grow(len(s))
	for i := 0; i < len(s); {
		if s[i] != 0x1b {
			out.WriteByte(s[i])
			i++
			continue
		}
		i++
		if i == len(s) {
			break
		}
		switch s[i] {
		case '[':
			for i++; i < len(s) && (s[i] < 0x40 || s[i] > 0x7e); i++ {
			}
			i++
		case ']':
			for i++; i < len(s) && s[i] != 0x07 && s[i] != 0x1b; i++ {
			}
			if i+1 < len(s) && s[i] == 0x1b {
				i++
			}
			i++
		default:
			i++
		}
	}
	return out.String()
}
