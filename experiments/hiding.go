package experiments

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
)

// hidingWindow is how much of a text is looked at at once: a longer line is
// taken in parts.
const hidingWindow = 256 << 10

// hiding reads a text with its secrets hidden, line by line and in bounded
// memory: each read holds at most two windows. A secret on a border of the parts
// it comes in, or of those of a very long line, is found.
type hiding struct {
	from  io.Reader
	hide  *redactor
	in    []byte // read, not yet looked at
	out   []byte // ready
	err   error  // of from
	lines int    // that had a secret in them
}

func newHiding(from io.Reader, hide *redactor) *hiding { return &hiding{from: from, hide: hide} }

// Read implements io.Reader.
func (h *hiding) Read(p []byte) (int, error) {
	for len(h.out) == 0 {
		if h.err == nil && len(h.in) < hidingWindow {
			h.fill()
			continue
		}
		if len(h.in) == 0 {
			return 0, h.err
		}
		h.next()
	}
	n := copy(p, h.out)
	h.out = h.out[n:]
	return n, nil
}

func (h *hiding) fill() {
	if cap(h.in) < hidingWindow {
		h.in = append(make([]byte, 0, hidingWindow), h.in...)
	}
	var n int
	n, h.err = h.from.Read(h.in[len(h.in):hidingWindow])
	h.in = h.in[:len(h.in)+n]
}

// next makes ready what can be told of what was read.
func (h *hiding) next() {
	h.out = h.out[:0]
	rest := h.in
	for len(rest) > 0 {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			if h.err == nil && len(rest) < hidingWindow {
				break // the line goes on
			}
			end = h.cut(rest)
		}
		clean := h.hide.text(string(rest[:end]))
		if clean != string(rest[:end]) {
			h.lines++
		}
		h.out = append(h.out, clean...)
		rest = rest[end:]
	}
	h.in = h.in[:copy(h.in, rest)]
}

// cut finds where a part of a line may end: nothing secret may lie across. The
// last part of a text is not cut.
func (h *hiding) cut(line []byte) int {
	if len(line) < hidingWindow {
		return len(line)
	}
	const step = 4 << 10
	whole := h.hide.text(string(line))
	for at := len(line) / 2; at > len(line)/4; at -= step {
		if h.hide.text(string(line[:at]))+h.hide.text(string(line[at:])) == whole {
			return at
		}
	}
	return len(line)
}

// Hidden is an old file on its way into the store, with what is secret in it
// hidden: values of flags, variables and members that are named like secrets,
// and passwords in URLs. Values that stand under no such name are not known.
type Hidden struct {
	hiding
	sum  hash.Hash
	want string
}

// HideSecrets reads content with its secrets hidden. At its end it fails when
// sha256sum, lower-case hex, is not the hash of content as it was; "" compares
// nothing.
func HideSecrets(content io.Reader, host, sha256sum string) *Hidden {
	h := &Hidden{sum: sha256.New(), want: sha256sum}
	h.hiding = *newHiding(io.TeeReader(content, h.sum), newRedactor(host, nil))
	return h
}

// Read implements io.Reader.
func (h *Hidden) Read(p []byte) (int, error) {
	n, err := h.hiding.Read(p)
	if err != io.EOF || h.want == "" {
		return n, err
	}
	if got := hex.EncodeToString(h.sum.Sum(nil)); got != h.want {
		return n, fmt.Errorf("the file changed while it was read: its sha256 was %s and is %s", h.want, got)
	}
	return n, err
}

// Lines is how many lines had a secret, as far as they were read.
func (h *Hidden) Lines() int { return h.lines }

// ShownText is a text of a host, the command line of a process for example, with
// what is secret in it hidden as far as its names tell.
func ShownText(host, text string) string { return newRedactor(host, nil).text(text) }

// ShownTextOf is ShownText for who knows values of secrets: they are hidden wherever
// they stand, whatever stands before them.
func ShownTextOf(text string, secrets map[string]string) string {
	r := newRedactor("", nil)
	for _, value := range secrets {
		if value != "" {
			r.hide(value)
		}
	}
	return r.text(text)
}

// ShownArgv is the command line of a process, likewise.
func ShownArgv(host string, argv []string) []string { return newRedactor(host, nil).argv(argv) }
