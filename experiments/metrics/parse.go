package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// chunk is how much is read at a time.
const chunk = 64 << 10

// maxDocument bounds a JSON document, which has to be held as a whole.
const maxDocument = 512 << 20

// Parse reads a whole file of any known kind. Text is streamed: memory is
// bounded by the longest line and the number of readings. A file in which
// nothing is recognised is no error; its report is empty. The error is that of
// r, with the name in it.
func Parse(r io.Reader, name string) (*Report, error) {
	br := bufio.NewReaderSize(r, chunk)
	head, err := br.Peek(4096)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if looksJSON(head) {
		return parseDocument(br, name)
	}
	return parseText(br, name)
}

func parseText(r io.Reader, name string) (*Report, error) {
	var p pipeline
	buf := make([]byte, chunk)
	for {
		n, err := r.Read(buf)
		p.write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	p.finish()
	return p.report(name), nil
}
