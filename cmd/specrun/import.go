package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"specrun/experiments"
	"specrun/experiments/record"
	"specrun/experiments/report"
	"specrun/experiments/store"
)

func newImportCommand(a *app) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "import FILE... [--host H]",
		Short: "Store old logs and benchmark outputs as runs labelled imported",
		Long: `Store what specrun reads out of old server logs and benchmark outputs as runs
labelled imported, one for each server start in them. Starts with the same flags
are launches of one cell; of others it is another one. A start that crashed before it
had any numbers is a failed run, with the crash as its class and reason.

With --host the files lie there: patterns are expanded on the host ("~", *, ?,
[..]), so quote them here. Only the lines that tell anything travel, compressed;
small files and JSON travel whole. Files packed by gzip count as their content.

The content's hash decides whether a file is known: importing it again, under
any name and from any host, changes nothing. A log that has grown since is read
anew, and the runs of its earlier import become superseded, so that no run
counts twice.` + exitStatus(exitOK, exitFailed, exitUsage, exitPartial, exitUnreachable),
		Example: `  specrun import server.log
  specrun import --host gpu-01 '~/logs/*.log' --dry-run`,
		Args: needs("a FILE", 1, 0, "specrun import server.log"),
		RunE: func(c *cobra.Command, args []string) error { return a.runImport(c.Context(), args, dryRun) },
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be imported, store nothing")
	return c
}

// importing is one import command at work. It is safe for concurrent use.
type importing struct {
	*app
	store *store.Store // nil with dry: there is none yet
	dry   bool

	mu     sync.Mutex
	known  []experiments.Content
	seen   map[string]store.Imported // by hash
	read   int                       // files that gave runs, or are known
	empty  []string                  // files with nothing in them
	failed []error
}

func (a *app) runImport(ctx context.Context, files []string, dry bool) (err error) {
	im := &importing{app: a, dry: dry, seen: map[string]store.Imported{}}
	if dry {
		im.store, err = a.existingStore(ctx, "")
	} else {
		im.store, err = a.openStore(ctx, "")
	}
	if err != nil {
		return err
	}
	if im.store != nil {
		defer im.store.Close()
		all, err := im.store.Imports(ctx)
		if err != nil {
			return err
		}
		for _, i := range all {
			im.known = append(im.known, experiments.Content{Bytes: i.Bytes, SHA256: i.SHA256})
			im.seen[i.SHA256] = i
		}
	}
	if len(a.flags.hosts) > 0 {
		err = a.eachHost(ctx, func(ctx context.Context, c *connection) error { return im.fromHost(ctx, c, files) })
	} else {
		for _, name := range files {
			if err = im.take(ctx, "", experiments.ImportLocal(name, im.known)); err != nil {
				break
			}
		}
	}
	return im.outcome(err)
}

func (im *importing) fromHost(ctx context.Context, c *connection, patterns []string) error {
	req := experiments.ImportRequest{Patterns: patterns, Python: im.flags.python, Known: im.known}
	if req.Python == "" {
		req.Python = c.entry.Python
	}
	im.progress("%s: reading", c.entry.Name)
	_, err := experiments.ImportHost(ctx, c.Host, req, func(f experiments.ImportFile) error {
		return im.take(ctx, c.entry.Name, f)
	})
	return err
}

// importLine is one file in --json.
type importLine struct {
	Host        string   `json:"host"` // "" = this machine
	File        string   `json:"file"`
	Bytes       int64    `json:"bytes"`       // that lie there
	Transferred int64    `json:"transferred"` // that came over the connection, compressed
	Filter      string   `json:"filter"`      // python3.x, awk, gzip: what chose the lines; none: the whole file came
	SHA256      string   `json:"sha256,omitempty"`
	Found       int      `json:"found"` // runs in it
	Runs        []string `json:"runs"`  // their ids; empty with --dry-run
	Labels      []string `json:"labels"`
	Known       bool     `json:"known"`
	Supersedes  []string `json:"supersedes,omitempty"` // runs of the log before it grew
	DryRun      bool     `json:"dry_run,omitempty"`
	Crash       string   `json:"crash,omitempty"`  // why a start in it ended
	Failed      int      `json:"failed,omitempty"` // runs that ended without numbers
	Error       string   `json:"error,omitempty"`
}

// take stores one file and says so. Its error ends the import: the store failed.
func (im *importing) take(ctx context.Context, host string, f experiments.ImportFile) error {
	im.mu.Lock()
	defer im.mu.Unlock()
	l := importLine{Host: host, File: f.Path, Bytes: f.Bytes, Transferred: f.Transferred, Filter: "none", SHA256: f.Content.SHA256,
		Found: len(f.Runs), Runs: []string{}, Labels: labelsOf(f.Runs), DryRun: im.dry}
	if f.Rows {
		l.Filter = f.Filter
	}
	for _, r := range f.Runs {
		if r.Crash.Kind != "" {
			l.Crash = fmt.Sprintf("%s at line %d: %s", r.Crash.Kind, r.Crash.FirstLine, r.Crash.Evidence)
		}
		if r.Failed() {
			l.Failed++
		}
	}
	known, isKnown := im.seen[f.Content.SHA256]
	isKnown = isKnown && f.Err == nil
	switch {
	case f.Err != nil:
		if host == "" && errors.Is(f.Err, fs.ErrNotExist) {
			f.Err = usagef("", "%s: no such file", f.Path)
		}
		im.failed = append(im.failed, f.Err)
		if l.File == "" {
			l.File = f.Pattern
		}
		l.Error = f.Err.Error()
		im.report(l)
		return nil
	case !isKnown && len(f.Runs) == 0:
		im.empty = append(im.empty, l.name())
		l.Error = nothingRead
		im.report(l)
		return nil
	case isKnown:
		l.Known, l.Found, l.Runs = true, len(known.Runs), known.Runs
	default:
		for _, sha := range f.Extends {
			l.Supersedes = append(l.Supersedes, im.seen[sha].Runs...)
		}
		if err := im.keep(ctx, host, f, &l); err != nil {
			return err
		}
	}
	im.read++
	im.report(l)
	return nil
}

// keep stores a new file, unless this is a dry run.
func (im *importing) keep(ctx context.Context, host string, f experiments.ImportFile, l *importLine) error {
	if !im.dry {
		content, err := f.Open()
		if err != nil {
			return err
		}
		defer content.Close()
		file := store.File{Name: f.Path, SHA256: f.Content.SHA256, Bytes: f.Content.Bytes, Host: host, Partial: f.Rows, Extends: f.Extends}
		original := f.Content.SHA256
		if f.Rows {
			original = "" // of the whole content, which did not travel
		}
		kept := experiments.HideSecrets(content, host, original)
		file.Hidden = kept.Lines
		for _, r := range f.Runs {
			file.Runs = append(file.Runs, r.Data)
			file.Times = append(file.Times, store.Span{StartUs: r.StartUs, EndUs: r.EndUs})
			end := store.End{Reason: r.Reason()}
			if r.Failed() {
				end.Class = record.Class(r.Crash.Kind)
			}
			file.Ends = append(file.Ends, end)
		}
		for _, c := range report.Configurations(file.Runs) {
			file.Cells = append(file.Cells, store.FileCell{Params: c.Params, Baseline: c.Baseline, Runs: c.Starts})
		}
		if l.Runs, l.Known, err = im.store.Import(ctx, file, kept); err != nil {
			return err
		}
	}
	im.seen[l.SHA256] = store.Imported{SHA256: l.SHA256, Bytes: f.Content.Bytes, Name: f.Path, Host: host, Runs: l.Runs}
	return nil
}

func (l importLine) name() string {
	if l.Host == "" {
		return l.File
	}
	return l.Host + ": " + l.File
}

// nothingRead is why a file is passed over; it is no error while others have runs.
const nothingRead = "nothing in it that specrun can read"

func (im *importing) report(l importLine) {
	if im.flags.json {
		im.line("import", l)
		return
	}
	if l.Error != "" {
		if l.Error == nothingRead {
			im.printf("%s: %s\n", l.name(), l.Error)
		}
		return // the error is printed at the end
	}
	state := "imported as " + strings.Join(l.Runs, " ")
	switch {
	case l.Known && im.dry && len(l.Runs) == 0:
		state = "the same content as a file before it"
	case l.Known:
		state = "already imported as " + strings.Join(l.Runs, " ")
	case im.dry:
		state = "would be imported"
	}
	im.printf("%s: %s\n", l.name(), state)
	size := sizeText(l.Bytes)
	if l.Host != "" {
		size += " there, " + sizeText(l.Transferred) + " travelled"
		if l.Filter != "none" {
			size += " (chosen by " + l.Filter + ")"
		}
	}
	labels := ""
	if len(l.Labels) > 0 {
		labels = ", labelled " + strings.Join(l.Labels, ", ")
	}
	im.printf("  %s; %s%s\n", size, counted(l.Found, "run"), labels)
	switch {
	case l.Failed > 0:
		im.printf("  a failed run, it has no numbers: %s\n", l.Crash)
	case l.Crash != "":
		im.printf("  its numbers end with a crash: %s\n", l.Crash)
	}
	if len(l.Supersedes) > 0 {
		im.printf("  the log has grown since its earlier import: superseded %s\n", strings.Join(l.Supersedes, " "))
	}
}

// outcome is the error of the whole command. Files with nothing in them are
// passed over as long as another file gave something.
func (im *importing) outcome(err error) error {
	if err != nil {
		return errors.Join(append(slices.Clone(im.failed), err)...)
	}
	if len(im.failed) == 0 && im.read == 0 {
		return &codedError{code: exitFailed, msg: "import " + strings.Join(im.empty, ", ") + ": " + nothingRead,
			hint: `"specrun parse" shows what specrun reads out of a file`}
	}
	if len(im.failed) > 0 && im.read > 0 {
		hint := "the other files were imported"
		if im.dry {
			hint = "the other files would be imported"
		}
		return &codedError{code: exitPartial, msg: unwrapOne(errors.Join(im.failed...)).Error(), hint: hint}
	}
	return unwrapOne(errors.Join(im.failed...))
}

func labelsOf(runs []experiments.LogRun) []string {
	names := []string{}
	for _, r := range runs {
		for _, l := range r.Data.Labels {
			if !slices.Contains(names, l.Name) {
				names = append(names, l.Name)
			}
		}
	}
	return names
}

func sizeText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, u := float64(n), 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	if u == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[u])
}
