package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"

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
	SHA256 string // lower-case hex, of the content
	Host   string // "" when it lay on the controller
	Params record.Params
	Runs   []record.RunData
}

// Import stores the runs of a file, labelled imported, and keeps its content.
// The content's hash decides whether it is known: a second import of it, under
// any name, changes nothing and returns the same runs with known set.
func (s *Store) Import(ctx context.Context, f File, content io.Reader) (runs []string, known bool, err error) {
	if len(f.Runs) == 0 {
		return nil, false, fmt.Errorf("import %s: %w", f.Name, errors.New("nothing in it that specrun can read"))
	}
	a := record.Artifact{Name: f.Name, SHA256: f.SHA256}
	if err := s.keep(ctx, &a, content); err != nil {
		return nil, false, fmt.Errorf("import %s: %w", f.Name, s.classify(err))
	}
	err = s.write(ctx, func(tx *sql.Tx) error {
		runs, err = collect(ctx, tx, func(rows *sql.Rows) (id string, err error) { return id, rows.Scan(&id) },
			`SELECT run.id FROM run JOIN launch ON launch.id = run.launch_id JOIN sweep ON sweep.id = launch.sweep_id
			WHERE sweep.kind = $1 AND sweep.plan_sha = $2 ORDER BY run.ord`, KindImport, a.SHA256)
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

// insertImport makes of the file what the executor would have stored: a sweep
// of one cell, a launch for each server start. The ids come from the content,
// so that two stores give the same file the same ids.
func (s *Store) insertImport(ctx context.Context, tx *sql.Tx, f File, a record.Artifact) ([]string, error) {
	now := s.now().UnixMicro()
	base := "imp-" + a.SHA256[:16]
	spec, err := json.Marshal(map[string]string{"file": f.Name, "host": f.Host, "sha256": a.SHA256})
	if err != nil {
		return nil, err
	}
	err = insertSweep(ctx, tx, record.Sweep{ID: base, Name: f.Name, Kind: KindImport, Spec: spec,
		PlanSHA: a.SHA256, State: record.SweepDone, CreatedUs: now, EndedUs: now})
	if err != nil {
		return nil, err
	}
	cell := record.Cell{ID: base + "-c", SweepID: base, Key: a.SHA256, Params: f.Params}
	if err := insertCell(ctx, tx, cell); err != nil {
		return nil, err
	}
	var runs []string
	for i, data := range f.Runs {
		id := fmt.Sprintf("%s-r%d", base, i+1)
		launch := record.Launch{ID: fmt.Sprintf("%s-l%d", base, i+1), SweepID: base, Host: f.Host, Round: i, State: record.LaunchDone}
		slot := record.Slot{ID: fmt.Sprintf("%s-s%d", base, i+1), CellID: cell.ID, Round: i}
		run := record.Run{ID: id, SlotID: slot.ID, Attempt: 1, LaunchID: launch.ID, Host: f.Host,
			State: record.RunDone, StartUs: now, EndUs: now}
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
	return runs, nil
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
