package experiments

import (
	"bufio"
	"fmt"
	"io"
)

// rowReader turns the rows that travelled back into a log of the same length
// and with the same line numbers: "k N" and N bytes are text of the log, "s
// BYTES LINES" stands for what was left out and comes out as lines of NUL, which
// the readers take for empty.
type rowReader struct {
	from *bufio.Reader
	kept int64     // bytes of text still to come
	fill int64     // NUL bytes still to come
	line int64     // newlines still to come behind them
	run  int64     // NULs since the last newline
	rows io.Writer // gets the text alone; may be nil
}

// fillLine bounds the lines of what was left out, as far as there are newlines.
const fillLine = 1 << 20

func newRowReader(r io.Reader) *rowReader { return &rowReader{from: bufio.NewReaderSize(r, 64<<10)} }

func (r *rowReader) Read(p []byte) (int, error) {
	for r.kept == 0 && r.fill == 0 && r.line == 0 {
		if err := r.record(); err != nil {
			return 0, err
		}
	}
	if r.kept > 0 {
		n, err := r.from.Read(p[:min(int64(len(p)), r.kept)])
		r.kept -= int64(n)
		if r.rows != nil && n > 0 {
			if _, err := r.rows.Write(p[:n]); err != nil {
				return n, err
			}
		}
		if err == io.EOF && r.kept > 0 {
			err = io.ErrUnexpectedEOF
		}
		return n, err
	}
	return r.filler(p), nil
}

// record reads the head of the next record.
func (r *rowReader) record() error {
	head, err := r.from.ReadString('\n')
	if err == io.EOF && head == "" {
		return io.EOF
	}
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	switch {
	case head[0] == 'k':
		_, err = fmt.Sscanf(head, "k %d\n", &r.kept)
	case head[0] == 's':
		var bytes int64
		_, err = fmt.Sscanf(head, "s %d %d\n", &bytes, &r.line)
		r.fill, r.run = bytes-r.line, 0
	default:
		err = fmt.Errorf("unknown record")
	}
	if err != nil || r.kept < 0 || r.fill < 0 || r.line < 0 {
		return fmt.Errorf("rows of a log: %q is no record", head)
	}
	return nil
}

func (r *rowReader) filler(p []byte) int {
	n := 0
	for n < len(p) && (r.fill > 0 || r.line > 0) {
		if r.fill == 0 || r.run >= fillLine && r.line > 1 {
			p[n] = '\n'
			r.line, r.run = r.line-1, 0
			n++
			continue
		}
		some := min(int64(len(p)-n), r.fill, max(fillLine-r.run, 1))
		if r.line <= 1 {
			some = min(int64(len(p)-n), r.fill)
		}
		clear(p[n : n+int(some)])
		n, r.fill, r.run = n+int(some), r.fill-some, r.run+some
	}
	return n
}
