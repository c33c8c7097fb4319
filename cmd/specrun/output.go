package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
)

// printer writes results to stdout and everything else to stderr. With --json
// stdout carries JSON lines only: each has a type, and the last is a summary.
// It is safe for concurrent use.
type printer struct {
	out, err io.Writer
	json     bool
	quiet    bool
	verbose  bool
	live     bool // stderr is a terminal: one status line is rewritten in place

	columns func() int // of that terminal, asked for each line; nil or 0: not known

	mu     sync.Mutex
	status bool          // the live line is on screen
	body   string        // of the live line
	tail   func() string // what follows it; nil = nothing
}

// schemaVersion stands in every JSON line.
const schemaVersion = 1

// line writes one JSON line of the given type. v must marshal to an object.
func (p *printer) line(kind string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("result of type %s does not marshal: %v", kind, err)) // a programming error: results are plain values
	}
	head := fmt.Sprintf(`{"type":%q,"schema":%d`, kind, schemaVersion)
	p.mu.Lock()
	defer p.mu.Unlock()
	if string(body) == "{}" {
		fmt.Fprintf(p.out, "%s}\n", head)
		return
	}
	fmt.Fprintf(p.out, "%s,%s\n", head, body[1:])
}

// raw writes text of the result as it is.
func (p *printer) raw(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	io.WriteString(p.out, text)
}

// printf writes a line of the result; nothing with --json.
func (p *printer) printf(format string, args ...any) {
	if p.json {
		return
	}
	p.raw(fmt.Sprintf(format, args...))
}

// note writes a line for the person watching, on stderr; nothing with --quiet.
func (p *printer) note(format string, args ...any) {
	if p.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.err, format+"\n", args...)
}

// table writes aligned columns; rows are tab-separated by the caller's cells.
func (p *printer) table(header []string, rows [][]string) {
	if p.json {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	w := tabwriter.NewWriter(p.out, 0, 8, 2, ' ', 0)
	writeRow := func(cells []string) {
		for i, c := range cells {
			if i > 0 {
				io.WriteString(w, "\t")
			}
			io.WriteString(w, c)
		}
		io.WriteString(w, "\n")
	}
	if len(header) > 0 {
		writeRow(header)
	}
	for _, r := range rows {
		writeRow(r)
	}
	w.Flush()
}

// object writes a JSON line of a value that carries its own type and schema.
func (p *printer) object(v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("result does not marshal: %v", err)) // as in line
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "%s\n", body)
}

// checkedWriter remembers the first failure, since a result that was not written
// is no success. It is used under the printer's lock, or alone.
type checkedWriter struct {
	to  io.Writer
	err error
}

func (w *checkedWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}
