package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"specrun/experiments/record"
)

// LabelImported marks runs that specrun did not measure itself.
const LabelImported = "imported"

// KindImport is the kind of a sweep that holds an imported file.
const KindImport = "import"

// File is a parsed log or benchmark output, ready to be stored. A log of
// several server starts gives one entry in Runs for each.
type File struct {
	Name   string // as the user named it
	SHA256 string // lower-case hex, of the content, also where only a part of it is kept
	Bytes  int64  // of the content
	Host   string // "" when it lay on the controller
	Runs   []record.RunData
	Times  []Span // by run; nil or zero ones are not known
	Ends   []End  // by run; what ended it, as far as the file tells
	// Cells say which runs were started alike, so that they are launches of one
	// cell; each run is in one of them. None: all runs are of one.
	Cells []FileCell
	// Partial says that what is kept is not the content but the lines of it that
	// tell anything.
	Partial bool
	// Hidden says, once the content was read, in how many of its lines secrets
	// were hidden before it came here; whoever hid them has compared the hash. nil:
	// it comes as it is.
	Hidden func() int
	// Extends are the hashes of earlier imports whose content this one begins
	// with: the same log, before it grew. Their runs become superseded.
	Extends []string
}

// FileCell is a configuration that a server was started with once or more.
type FileCell struct {
	Params   record.Params
	Baseline bool
	Runs     []int // indexes into File.Runs
}

// End is why a run ended. One with a class has failed; a reason without one is of
// a run whose numbers stand.
type End struct {
	Class  record.Class
	Reason string
}

// Span is the time of a run, in microseconds since the epoch.
type Span struct{ StartUs, EndUs int64 }

// Imported is a content that the store knows.
type Imported struct {
	SHA256 string
	Bytes  int64
	Name   string
	Host   string
	Runs   []string
}

// spec is what an import keeps of its file in place of a spec.
type importSpec struct {
	File    string `json:"file"`
	Host    string `json:"host"`
	SHA256  string `json:"sha256"`
	Bytes   int64  `json:"bytes"`
	Partial bool   `json:"partial,omitempty"`
	// HiddenLines had secrets; what is kept then has another hash, KeptSHA256.
	HiddenLines int      `json:"hidden_lines,omitempty"`
	KeptSHA256  string   `json:"kept_sha256,omitempty"`
	Extends     []string `json:"extends,omitempty"`
}

// Imports lists the contents that were imported, the newest first.
func (s *Store) Imports(ctx context.Context) (all []Imported, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		all, err = collect(ctx, tx, func(rows *sql.Rows) (Imported, error) {
			var i Imported
			var spec string
			err := rows.Scan(&spec, &i.SHA256)
			if err != nil {
				return i, err
			}
			var kept importSpec
			if err := json.Unmarshal([]byte(spec), &kept); err != nil {
				return i, fmt.Errorf("import %s: %w", i.SHA256, err)
			}
			i.Bytes, i.Name, i.Host = kept.Bytes, kept.File, kept.Host
			return i, nil
		}, `SELECT spec, plan_sha FROM sweep WHERE kind = $1 ORDER BY created_us DESC, id`, KindImport)
		if err != nil {
			return err
		}
		for i := range all {
			if all[i].Runs, err = importedRuns(ctx, tx, all[i].SHA256); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list imports: %w", err)
	}
	return all, nil
}

func importedRuns(ctx context.Context, tx *sql.Tx, sha string) ([]string, error) {
	return collect(ctx, tx, func(rows *sql.Rows) (id string, err error) { return id, rows.Scan(&id) },
		`SELECT run.id FROM run JOIN launch ON launch.id = run.launch_id JOIN sweep ON sweep.id = launch.sweep_id
		WHERE sweep.kind = $1 AND sweep.plan_sha = $2 ORDER BY run.ord`, KindImport, sha)
}

// Import stores the runs of a file, labelled imported, and keeps its content; the
// hash of an artifact is that of what is kept.
// The content's hash decides whether it is known: a second import of it, under
// any name and from any host, changes nothing and returns the same runs with
// known set. A log that has grown is another content: its runs are new, and those
// of the imports that it extends become superseded, so that none counts twice.
func (s *Store) Import(ctx context.Context, f File, content io.Reader) (runs []string, known bool, err error) {
	if len(f.Runs) == 0 {
		return nil, false, fmt.Errorf("import %s: %w", f.Name, errors.New("nothing in it that specrun can read"))
	}
	a := record.Artifact{Name: f.Name}
	if !f.Partial && f.Hidden == nil {
		a.SHA256 = f.SHA256
	}
	if err := s.keep(ctx, &a, content); err != nil {
		return nil, false, fmt.Errorf("import %s: %w", f.Name, s.classify(err))
	}
	if f.Hidden != nil && f.Hidden() > 0 {
		a.Name += " (secrets hidden)"
	}
	err = s.write(ctx, func(tx *sql.Tx) error {
		runs, err = importedRuns(ctx, tx, f.SHA256)
		if err != nil || len(runs) > 0 {
			known = len(runs) > 0
			return err
		}
		runs, err = s.insertImport(ctx, tx, f, a)
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("import %s: %w", f.Name, err)
	}
	return runs, known, nil
}

// cells gives the cells, and by run the id of its cell.
func (f File) cells(base string) (cells []record.Cell, of []string, err error) {
	parts := f.Cells
	if parts == nil {
		all := FileCell{}
		for i := range f.Runs {
			all.Runs = append(all.Runs, i)
		}
		parts = []FileCell{all}
	}
	of = make([]string, len(f.Runs))
	for ord, c := range parts {
		cell := record.Cell{ID: base + "-c", SweepID: base, Ord: ord, Key: f.SHA256, Params: c.Params, Baseline: c.Baseline}
		if ord > 0 { // the first keeps the id that the only one has
			cell.ID, cell.Key = fmt.Sprintf("%s%d", cell.ID, ord+1), fmt.Sprintf("%s/%d", f.SHA256, ord+1)
		}
		for _, i := range c.Runs {
			if i < 0 || i >= len(of) || of[i] != "" {
				return nil, nil, fmt.Errorf("run %d of %d is in no cell, or in two", i+1, len(of))
			}
			of[i] = cell.ID
		}
		cells = append(cells, cell)
	}
	if i := slices.Index(of, ""); i >= 0 {
		return nil, nil, fmt.Errorf("run %d of %d is in no cell", i+1, len(of))
	}
	return cells, of, nil
}

// insertImport makes of the file what the executor would have stored: a sweep
// with a cell for each configuration, a launch for each server start. The ids come
// from the content, so that two stores give the same file the same ids.
func (s *Store) insertImport(ctx context.Context, tx *sql.Tx, f File, a record.Artifact) ([]string, error) {
	now := s.now().UnixMicro()
	base := "imp-" + f.SHA256[:16]
	about := importSpec{File: f.Name, Host: f.Host, SHA256: f.SHA256, Bytes: f.Bytes, Partial: f.Partial, Extends: f.Extends}
	if f.Hidden != nil && f.Hidden() > 0 {
		about.HiddenLines, about.KeptSHA256 = f.Hidden(), a.SHA256
	}
	spec, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	err = insertSweep(ctx, tx, record.Sweep{ID: base, Name: f.Name, Kind: KindImport, Spec: spec,
		PlanSHA: f.SHA256, State: record.SweepDone, CreatedUs: now, EndedUs: now})
	if err != nil {
		return nil, err
	}
	cells, cellOf, err := f.cells(base)
	if err != nil {
		return nil, err
	}
	for _, cell := range cells {
		if err := insertCell(ctx, tx, cell); err != nil {
			return nil, err
		}
	}
	var runs []string
	for i, data := range f.Runs {
		id := fmt.Sprintf("%s-r%d", base, i+1)
		launch := record.Launch{ID: fmt.Sprintf("%s-l%d", base, i+1), SweepID: base, Host: f.Host, Round: i, State: record.LaunchDone}
		slot := record.Slot{ID: fmt.Sprintf("%s-s%d", base, i+1), CellID: cellOf[i], Round: i}
		run := record.Run{ID: id, SlotID: slot.ID, Attempt: 1, LaunchID: launch.ID, Host: f.Host,
			State: record.RunDone, StartUs: now, EndUs: now}
		if i < len(f.Times) && f.Times[i].StartUs > 0 {
			run.StartUs, run.EndUs = f.Times[i].StartUs, f.Times[i].EndUs
		}
		if i < len(f.Ends) {
			run.Class, run.Reason = f.Ends[i].Class, f.Ends[i].Reason
			if run.Class != record.ClassNone {
				run.State, launch.State = record.RunFailed, record.LaunchFailed
			}
		}
		if err := insertSlot(ctx, tx, slot, i); err != nil {
			return nil, err
		}
		if err := insertLaunch(ctx, tx, launch); err != nil {
			return nil, err
		}
		if err := insertRun(ctx, tx, run); err != nil {
			return nil, err
		}
		if err := putData(ctx, tx, id, withImported(data, f.Name)); err != nil {
			return nil, err
		}
		event := record.Event{LaunchID: launch.ID, Seq: 1, RunID: id, AtUs: now, Step: "import", Kind: record.EventDone, Evidence: spec}
		if err := insertEvent(ctx, tx, event); err != nil {
			return nil, err
		}
		kept := a
		kept.LaunchID = launch.ID
		if err := s.putArtifact(ctx, tx, kept); err != nil {
			return nil, err
		}
		runs = append(runs, id)
	}
	for _, sha := range f.Extends {
		if err := supersedeImport(ctx, tx, sha, base, now); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// supersedeImport takes the runs of an earlier state of a log out of the count:
// the longer one has them, too.
func supersedeImport(ctx context.Context, tx *sql.Tx, sha, by string, now int64) error {
	type row struct {
		run, launch string
		seq         int64
	}
	rows, err := collect(ctx, tx, func(rows *sql.Rows) (r row, err error) { return r, rows.Scan(&r.run, &r.launch, &r.seq) },
		`SELECT run.id, run.launch_id, (SELECT COALESCE(MAX(seq), 0) FROM event WHERE event.launch_id = run.launch_id)
		FROM run JOIN launch ON launch.id = run.launch_id JOIN sweep ON sweep.id = launch.sweep_id
		WHERE sweep.kind = $1 AND sweep.plan_sha = $2 AND run.state IN ($3, $4)`, KindImport, sha, string(record.RunDone), string(record.RunFailed))
	if err != nil {
		return err
	}
	for _, r := range rows {
		_, err := tx.ExecContext(ctx, `UPDATE run SET state = $1, reason = $2 WHERE id = $3`,
			string(record.RunSuperseded), "the log has grown: its later import "+by+" has this run", r.run)
		if err != nil {
			return err
		}
		evidence, err := json.Marshal(map[string]string{"superseded_by": by})
		if err != nil {
			return err
		}
		err = insertEvent(ctx, tx, record.Event{LaunchID: r.launch, Seq: r.seq + 1, RunID: r.run, AtUs: now, Step: "import", Kind: record.EventNote, Evidence: evidence})
		if err != nil {
			return err
		}
	}
	return nil
}

// withImported adds the label unless it is there. The caller's slice stays as
// it is.
func withImported(d record.RunData, file string) record.RunData {
	for _, l := range d.Labels {
		if l.Name == LabelImported {
			return d
		}
	}
	d.Labels = append(append([]record.Label(nil), d.Labels...),
		record.Label{Name: LabelImported, Reason: "read from " + file + ", not measured by specrun"})
	return d
}
