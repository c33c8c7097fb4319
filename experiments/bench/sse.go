package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxEvent bounds one server-sent event.
const maxEvent = 8 << 20

var errEventTooLong = fmt.Errorf("a server-sent event is longer than %d MiB", maxEvent>>20)

// eventReader reads server-sent events. Lines may end in LF, CR LF or CR and
// may come in any pieces; an event may have several data lines; comments and
// other fields are skipped.
type eventReader struct {
	r    *bufio.Reader
	data []byte
	line []byte
	cr   bool // the line before ended in CR: a LF right behind it is no line of its own
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 16<<10)}
}

// next returns the data of the next event, valid until the next call. An event
// that the end of the stream cuts off is not returned: the error is io.EOF, or
// io.ErrUnexpectedEOF when data of an unfinished event was pending.
func (e *eventReader) next() ([]byte, error) {
	e.data = e.data[:0]
	has := false
	for {
		line, err := e.readLine()
		if err != nil {
			if errors.Is(err, io.EOF) && (has || len(line) > 0) {
				return nil, io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if len(line) == 0 {
			if has {
				return e.data, nil
			}
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		if has {
			e.data = append(e.data, '\n')
		}
		if len(e.data)+len(value) > maxEvent {
			return nil, errEventTooLong
		}
		e.data = append(e.data, value...)
		has = true
	}
}

func (e *eventReader) readLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		c, err := e.r.ReadByte()
		if err != nil {
			return e.line, err
		}
		if e.cr {
			e.cr = false
			if c == '\n' {
				continue
			}
		}
		switch c {
		case '\n':
			return e.line, nil
		case '\r':
			e.cr = true
			return e.line, nil
		}
		if len(e.line) >= maxEvent {
			return nil, errEventTooLong
		}
		e.line = append(e.line, c)
	}
}
