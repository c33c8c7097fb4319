package experiments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// tailBytes is how much of a log is kept with a failed run.
const tailBytes = 64 << 10

// hostFile reads a file on the host from an offset up to a limit.
type hostFile struct {
	ctx      context.Context // of one call that reads it to the end
	server   Server
	path     string
	at, upTo int64 // upTo < 0: to the end
	failed   error // why the host could not read on
}

func (f *hostFile) Read(p []byte) (int, error) {
	if f.upTo >= 0 {
		if f.at >= f.upTo {
			return 0, io.EOF
		}
		p = p[:min(int64(len(p)), f.upTo-f.at)]
	}
	n, _, err := f.server.ReadAt(f.ctx, f.path, p, f.at)
	f.at += int64(n)
	if err == nil && n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	if err != nil && err != io.EOF {
		f.failed = err
	}
	return n, err
}

// gone says that it is the file itself that cannot be read, somebody deleted it
// for example: no other try helps, and what else is known is worth keeping.
func (f *hostFile) gone() bool {
	return f.failed != nil && !hostLost(f.failed) && f.ctx.Err() == nil
}

// unreadableError says that the server's log cannot be read.
type unreadableError struct {
	path string
	err  error
}

func (e *unreadableError) Error() string {
	return fmt.Sprintf("the server's log %s cannot be read: %v", e.path, e.err)
}

func (e *unreadableError) Unwrap() error { return e.err }

// window reads the whole lines between two byte cursors, and where they begin.
// cut says what of them is missing, "" when nothing is. It fails with
// *unreadableError when the file is the trouble.
func (a *attempt) window(ctx context.Context, from, to int64) (text []byte, begin int64, cut string, err error) {
	if from < 0 || to < 0 { // the cursors could not be read
		return nil, max(from, 0), "", nil
	}
	var changed *logChangedError
	if err := a.sameLog(ctx, a.state.LogFile, max(from, to)); errors.As(err, &changed) {
		return nil, to, changed.Error(), nil
	}
	if to < from {
		return nil, to, (&logChangedError{a.state.LogPath, fmt.Sprintf("was cut from %d to %d bytes", from, to)}).Error(), nil
	}
	if to == 0 {
		return nil, 0, "the server had written nothing to its log when the benchmark ended", nil
	}
	// One byte earlier shows whether a line begins at the cursor.
	begin = max(from-1, 0)
	f := &hostFile{ctx: ctx, server: a.x.host.Server, path: a.state.LogPath, at: begin, upTo: to}
	text, err = io.ReadAll(f)
	if err != nil && f.gone() {
		return nil, 0, "", &unreadableError{f.path, f.failed}
	}
	if err != nil {
		return nil, 0, "", fmt.Errorf("read the server's log: %w", err)
	}
	if cut = torn(text, from > 0); cut == "" && a.ready.Unmarked {
		cut = "the server writes its log in blocks: it served before its log said so, and what it held back of this benchmark is missing" + unbuffered
	}
	if from > 0 {
		nl := bytes.IndexByte(text, '\n')
		if nl < 0 {
			return nil, to, cut, nil
		}
		begin += int64(nl) + 1
		text = text[nl+1:]
	}
	return text[:bytes.LastIndexByte(text, '\n')+1], begin, cut, nil
}

// unbuffered is what helps against it.
const unbuffered = "; PYTHONUNBUFFERED=1 in server.env makes it write each line at once"

// torn says what is missing of a stretch of log that does not begin (behind its
// first byte) or end with a line: its writer fills a block before it writes.
// A progress bar has no end of line either.
func torn(text []byte, before bool) string {
	if len(text) == 0 {
		return ""
	}
	partial := func(line []byte) bool { return len(line) > 0 && !bytes.ContainsRune(line, '\r') }
	if partial(text[bytes.LastIndexByte(text, '\n')+1:]) {
		return "the server writes its log in blocks: it stood in the middle of a line when the benchmark ended, and what it held back is missing" + unbuffered
	}
	if first, _, _ := bytes.Cut(text, []byte("\n")); before && partial(first) {
		return "the server writes its log in blocks: it stood in the middle of a line when the benchmark began, so the first lines may be of what was before" + unbuffered
	}
	return ""
}

// tail is the end of the server's log, "" when it cannot be read: it only adds
// to an error that is known already.
func (a *attempt) tail(ctx context.Context) string {
	if a.state.Phase != server.Running && a.state.Phase != server.Exited {
		return ""
	}
	host := a.x.host.Server
	_, size, err := host.ReadAt(ctx, a.state.LogPath, make([]byte, 1), 0)
	if err != nil {
		return ""
	}
	from := max(0, size-tailBytes)
	text, err := io.ReadAll(&hostFile{ctx: ctx, server: host, path: a.state.LogPath, at: from, upTo: size})
	if err != nil {
		return ""
	}
	if from > 0 { // of half a line nobody can tell what is secret
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return string(text)
}

// attachTail keeps the end of the log with a failed run, its secrets hidden. The
// run's result is stored already, so what goes wrong here is a note.
func (a *attempt) attachTail(ctx context.Context, runID string) {
	text := a.tail(ctx)
	if text == "" {
		return
	}
	_, err := a.x.deps.Recorder.Attach(context.WithoutCancel(ctx), record.Artifact{RunID: runID, LaunchID: a.rec.ID, Name: "server-tail.log"},
		strings.NewReader(a.hider().text(text)))
	if err != nil {
		a.x.note(fmt.Sprintf("the log tail of run %s was not kept: %v", runID, err))
	}
}

// attachLog keeps the whole log of the launch, its secrets hidden. One that
// cannot be read is a note: what was measured is stored already.
func (a *attempt) attachLog(ctx context.Context) error {
	if a.state.LogPath == "" {
		return nil // of a server of somebody else, which was said
	}
	f := &hostFile{ctx: ctx, server: a.x.host.Server, path: a.state.LogPath, at: a.state.LogFrom, upTo: -1}
	_, err := a.x.deps.Recorder.Attach(ctx, record.Artifact{LaunchID: a.rec.ID, Name: "server.log"}, newHiding(f, a.hider()))
	if err != nil && f.gone() {
		why := a.hider().text((&unreadableError{f.path, f.failed}).Error())
		a.x.note(fmt.Sprintf("%s: launch %s ended without its log: %s", a.x.host.Name, a.rec.ID, why))
		return a.record(ctx, "", stepLaunch, record.EventNote, map[string]string{"log": why}, record.Change{})
	}
	if err != nil {
		return fmt.Errorf("keep the log of launch %s: %w", a.rec.ID, err)
	}
	return nil
}
