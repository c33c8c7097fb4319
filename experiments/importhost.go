package experiments

import (
	"bufio"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"specrun/experiments/metrics"
	"specrun/remote"
)

var (
	//go:embed scripts/importlog.py
	importProgram string
	//go:embed scripts/importlog.sh
	importText string
)

// importLimit bounds the reading of all files of one host.
const importLimit = 6 * time.Hour

// Content is what identifies a log: its bytes, unpacked when it was gzip.
type Content struct {
	Bytes  int64
	SHA256 string // lower-case hex
}

// ImportFile is one file read for an import. Err, when set, says why it could
// not be, or not to its end; then there are no runs.
type ImportFile struct {
	Pattern string // as the user named it
	Path    string // on its host
	Bytes   int64  // that lie there
	// Transferred is how many bytes of the connection's stream the file took,
	// compressed, before encryption; 0 for a file of this machine.
	Transferred int64
	Content     Content
	// Known: the content is among the known ones. Its runs were not read.
	Known bool
	// Extends names the known contents that this one begins with: an earlier
	// state of the same log.
	Extends []string
	Runs    []LogRun
	Filter  string // tool that chose the lines of this host: python3.x, awk; gzip when whole files travel
	Rows    bool   // what can be opened are the lines that tell anything, not the whole content
	// Open gives the content, or the lines of it that travelled. Of a file of a
	// host it works until the callback returns; nil when nothing was read.
	Open func() (io.ReadCloser, error)
	Err  error
}

// ImportRequest says what to read on a host.
type ImportRequest struct {
	Patterns []string // paths and shell globs, expanded on the host; "~" is a home folder
	Python   string   // interpreter to filter with; "" looks for one on the PATH
	Known    []Content
}

// NoMatchError says that a pattern names no file on the host.
type NoMatchError struct{ Host, Pattern string }

func (e *NoMatchError) Error() string {
	return fmt.Sprintf("%s: no file matches %s", e.Host, e.Pattern)
}

// Hint says what to look at.
func (e *NoMatchError) Hint() string {
	return "patterns are expanded on the host, relative to its home folder: quote them here"
}

// ImportHost reads logs that lie on a host, in one exec for all of them. A
// filter there lets only those lines travel that metrics can use; small files
// and JSON documents travel whole. each is called for every file in turn, also
// for one that could not be read; its error ends the import. The tool that
// filtered is returned: python3.x, awk, or gzip (everything travelled).
func ImportHost(ctx context.Context, h *remote.Host, req ImportRequest, each func(ImportFile) error) (filter string, err error) {
	s, err := importScript(req)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to := io.Pipe()
	in := importStream{host: h.Name(), req: req, each: each, counted: counted{r: bufio.NewReaderSize(from, 256<<10)}}
	done := make(chan error, 1)
	go func() {
		err := in.read()
		if err != nil {
			cancel() // nobody reads on
		}
		from.CloseWithError(err)
		done <- err
	}()
	_, err = h.Stream(ctx, s, to)
	to.CloseWithError(err) // io.EOF when nil
	read := <-done
	if read != nil && (err == nil || !errors.Is(read, err)) {
		return in.filter, read // it is why the script was ended
	}
	return in.filter, err
}

func importScript(req ImportRequest) (remote.Script, error) {
	marks := metrics.LogMarkers()
	markers, err := json.Marshal(marks)
	if err != nil {
		return remote.Script{}, err
	}
	known := [][2]any{}
	for _, c := range req.Known {
		known = append(known, [2]any{c.Bytes, c.SHA256})
	}
	knownJSON, err := json.Marshal(known)
	if err != nil {
		return remote.Script{}, err
	}
	var words strings.Builder
	for _, m := range marks.Lines {
		fmt.Fprintf(&words, "%d %s\n", m.After, m.Word)
	}
	for _, w := range marks.Openers {
		fmt.Fprintf(&words, "%d %s\n", marks.Guard, w)
	}
	for i, group := range marks.Hints {
		for _, w := range group {
			fmt.Fprintf(&words, "h%d %s\n", i, w)
		}
	}
	for _, w := range marks.Alive {
		fmt.Fprintf(&words, "a %s\n", w)
	}
	vars := []remote.Var{{Name: "COUNT", Value: strconv.Itoa(len(req.Patterns))}, {Name: "PYTHON", Value: req.Python},
		{Name: "PROGRAM", Value: importProgram}, {Name: "MARKERS", Value: string(markers)}, {Name: "KNOWN", Value: string(knownJSON)},
		{Name: "WORDS", Value: words.String()}}
	for i, p := range req.Patterns {
		vars = append(vars, remote.Var{Name: "P" + strconv.Itoa(i), Value: p})
	}
	return remote.Script{Name: "import", Text: remote.HostLib() + importText, Vars: vars, Timeout: importLimit}, nil
}

// importStream reads what the script sends.
type importStream struct {
	counted
	host   string
	req    ImportRequest
	each   func(ImportFile) error
	filter string
	kept   string // file with the text of the file in turn
}

// counted counts the bytes taken from a buffered reader. It is a ByteReader, so
// that gzip takes no byte behind its member.
type counted struct {
	r *bufio.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counted) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

// words reads a line of words; io.EOF only where a line would begin.
func (s *importStream) words() ([]string, error) {
	line, err := s.r.ReadString('\n')
	s.n += int64(len(line))
	if err != nil {
		if err == io.EOF && line != "" {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	w := strings.Split(strings.TrimSuffix(line, "\n"), " ")
	return append(w, make([]string, max(0, 6-len(w)))...), nil
}

func (s *importStream) read() error {
	for {
		before := s.n
		w, err := s.words()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if w[0] == "with" {
			s.filter = w[1]
			continue
		}
		f, err := s.file(w)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: import: %w", s.host, err), s.discard())
		}
		f.Transferred, f.Filter = s.n-before, s.filter
		if err := errors.Join(s.each(f), s.discard()); err != nil {
			return err
		}
	}
}

// discard removes the text of the file in turn.
func (s *importStream) discard() error {
	if s.kept == "" {
		return nil
	}
	path := s.kept
	s.kept = ""
	return os.Remove(path)
}

// file reads what follows the first line of one file.
func (s *importStream) file(w []string) (f ImportFile, err error) {
	i, err := strconv.Atoi(w[1])
	if err != nil || i < 0 || i >= len(s.req.Patterns) {
		return f, fmt.Errorf("the host sent %q", w)
	}
	f.Pattern = s.req.Patterns[i]
	if w[0] == "none" {
		f.Err = &NoMatchError{s.host, f.Pattern}
		return f, nil
	}
	path, err := hex.DecodeString(w[2])
	if err != nil {
		return f, fmt.Errorf("the host sent %q", w)
	}
	f.Path = string(path)
	fail := func(text string) { f.Err = fmt.Errorf("%s: read %s: %s", s.host, f.Path, text) }
	switch w[0] {
	case "error":
		text, err := hex.DecodeString(w[3])
		fail(string(text))
		return f, err
	case "known":
		f.Bytes, err = strconv.ParseInt(w[3], 10, 64)
		f.Known, f.Content = true, Content{f.Bytes, w[4]}
		return f, err
	case "file":
	default:
		return f, fmt.Errorf("the host sent %q", w)
	}
	if f.Bytes, err = strconv.ParseInt(w[3], 10, 64); err != nil {
		return f, err
	}
	f.Rows = w[4] == "rows"
	sum, n, err := s.member(&f)
	if err != nil {
		return f, err
	}
	for w, err = s.words(); err == nil && w[0] == "prefix"; w, err = s.words() {
		if !slices.Contains(f.Extends, w[1]) {
			f.Extends = append(f.Extends, w[1])
		}
	}
	if err != nil || w[0] != "end" {
		return f, fmt.Errorf("the host sent %q at the end of %s: %w", w, f.Path, errors.Join(err, io.ErrUnexpectedEOF))
	}
	f.Content = Content{n, w[1]}
	if !f.Rows {
		if w[1] != "-" && w[1] != sum {
			return f, fmt.Errorf("%s: %w: sent %s, came as %s", f.Path, remote.ErrMismatch, w[1], sum)
		}
		f.Content.SHA256 = sum
	} else if w[2] != strconv.FormatInt(n, 10) {
		return f, fmt.Errorf("%s: %w: sent %s bytes, came as %d", f.Path, remote.ErrMismatch, w[2], n)
	}
	if text, err := hex.DecodeString(w[3]); err != nil || len(text) > 0 {
		fail(string(text))
		f.Runs = nil
		return f, err
	}
	for _, c := range s.req.Known {
		f.Known = f.Known || c == f.Content
	}
	return f, nil
}

// member reads the compressed part of a file: its runs, and its text into a
// file. A log that cannot be read is an error of the file, not of the stream.
func (s *importStream) member(f *ImportFile) (sum string, n int64, err error) {
	z, err := gzip.NewReader(&s.counted)
	if err != nil {
		return "", 0, err
	}
	z.Multistream(false)
	kept, err := os.CreateTemp("", "specrun-import-")
	if err != nil {
		return "", 0, err
	}
	s.kept = kept.Name()
	path := s.kept
	f.Open = func() (io.ReadCloser, error) { return os.Open(path) }
	defer func() {
		err = errors.Join(err, kept.Close())
	}()
	all := newPrefixSum(s.req.Known)
	var log io.Reader = io.TeeReader(z, io.MultiWriter(kept, all))
	if f.Rows {
		rows := newRowReader(z)
		rows.rows = kept
		log = io.LimitReader(rows, f.Bytes) // awk ends each line, also one that has no end; gzip unpacks behind no filter but Python's
		if s.filter != "awk" {
			log = rows
		}
	}
	read := &measured{r: log}
	runs, err := ReadLogRuns(read, f.Path)
	if err != nil && read.err == nil {
		f.Err, err = err, nil
	}
	if err != nil {
		return "", 0, err
	}
	f.Runs = runs
	if _, err := io.Copy(io.Discard, read); err != nil {
		return "", 0, err
	}
	if !f.Rows { // a host without Python does not say it
		f.Extends = all.extends()
	}
	_, err = io.Copy(io.Discard, z)
	return hex.EncodeToString(all.hash.Sum(nil)), read.n, err
}

// measured counts what is read and keeps the error that ended it.
type measured struct {
	r   io.Reader
	n   int64
	err error
}

func (m *measured) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.n += int64(n)
	if err != nil && err != io.EOF {
		m.err = err
	}
	return n, err
}
