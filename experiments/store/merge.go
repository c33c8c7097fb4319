package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"specrun/experiments/record"
)

// Merged says what a merge brought.
type Merged struct {
	Runs   int  // that were new, or have another state now
	Events int  // that were new
	Stale  bool // the other store is behind this one: nothing was taken from it
	// Without are kept files that were given up, and are not listed here.
	Without []record.Artifact
}

// DivergedError says that two stores both went on with a sweep, so that neither
// is a continuation of the other.
type DivergedError struct {
	SweepID     string
	Here, There string // paths of the stores
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("sweep %s went on in two stores, %s and %s: they cannot become one", e.SweepID, e.Here, e.There)
}

// Hint says what to do next.
func (e *DivergedError) Hint() string {
	return "both are kept as they are; --store names the other one, and a new sweep counts for both"
}

// Merge brings all that another store has of a sweep into this one, by ids and
// in one transaction, so that doing it twice is doing it once, and a sweep that
// goes on there may be merged again and again. Claims and tags stay each
// store's own. Files of artifacts must be here before (Missing, Keep): a list
// never names one that is not. Those whose hashes are in without cannot be had any
// more; they are left out, unless they are here. A store whose journal is a part of this one's
// brings nothing. Errors: ErrNotFound when from has no such sweep, ErrExists
// when the id is another sweep's here, *DivergedError.
func (s *Store) Merge(ctx context.Context, from *Store, sweepID string, without ...string) (Merged, error) {
	m := merge{to: s, from: from, sweepID: sweepID}
	if err := m.read(ctx, true); err != nil {
		return Merged{}, fmt.Errorf("merge sweep %s: %w", sweepID, err)
	}
	given := m.giveUp(without)
	if missing := s.lacking(m.view.Artifact); len(missing) > 0 {
		return Merged{}, fmt.Errorf("merge sweep %s: %d kept files are not here: %w", sweepID, len(missing), ErrNotFound)
	}
	if err := m.write(ctx); err != nil {
		return Merged{}, fmt.Errorf("merge sweep %s: %w", sweepID, err)
	}
	m.done.Without = given
	return m.done, nil
}

// giveUp leaves kept files out that cannot be had, but for those that are here.
func (m *merge) giveUp(hashes []string) (given []record.Artifact) {
	m.view.Artifact = slices.DeleteFunc(m.view.Artifact, func(a record.Artifact) bool {
		lost := slices.Contains(hashes, a.SHA256) && len(m.to.lacking([]record.Artifact{a})) > 0
		if lost {
			given = append(given, a)
		}
		return lost
	})
	return given
}

// merge is one sweep on its way from a store to another.
type merge struct {
	to, from *Store
	sweepID  string
	view     record.SweepView           // of from, without data
	had      map[string]record.RunState // runs of to
	data     map[string]record.RunData  // of the runs that are new or have ended since
	labels   map[string][]record.Label  // of all runs: some are put on later
	done     Merged
}

// read takes what to does not have yet. Data is read of those runs only: a sweep
// that goes on is merged many times.
func (m *merge) read(ctx context.Context, artifacts bool) error {
	err := m.to.read(ctx, func(tx *sql.Tx) (err error) {
		m.had, err = runStates(ctx, tx, m.sweepID)
		return err
	})
	if err != nil {
		return err
	}
	return m.from.read(ctx, func(tx *sql.Tx) (err error) {
		if m.view, err = m.from.journal(ctx, tx, m.sweepID); err != nil {
			return err
		}
		if !artifacts {
			m.view.Artifact = nil
		}
		if m.labels, err = labelsOf(ctx, tx, m.sweepID); err != nil {
			return err
		}
		m.data = map[string]record.RunData{}
		for _, r := range m.view.Runs {
			if was, known := m.had[r.ID]; known && was == r.State {
				continue
			}
			one, err := readData(ctx, tx, ` WHERE run_id = $1`, r.ID)
			if err != nil {
				return err
			}
			m.data[r.ID] = one[r.ID]
		}
		return nil
	})
}

func runStates(ctx context.Context, tx *sql.Tx, sweepID string) (map[string]record.RunState, error) {
	states := map[string]record.RunState{}
	err := each(ctx, tx, func(rows *sql.Rows) error {
		var id string
		var state record.RunState
		err := rows.Scan(&id, &state)
		states[id] = state
		return err
	}, `SELECT run.id, run.state FROM run JOIN launch ON launch.id = run.launch_id WHERE launch.sweep_id = $1`, sweepID)
	return states, err
}

type eventKey struct {
	launch string
	seq    int64
}

func (m *merge) write(ctx context.Context) error {
	return m.to.write(ctx, func(tx *sql.Tx) error {
		m.done = Merged{}
		known, err := m.begin(ctx, tx)
		if err != nil {
			return err
		}
		// Another merge may have been quicker.
		if m.had, err = runStates(ctx, tx, m.sweepID); err != nil {
			return err
		}
		ahead, behind := m.compare(known)
		switch {
		case ahead && behind:
			return &DivergedError{SweepID: m.sweepID, Here: m.to.path, There: m.from.path}
		case behind:
			m.done.Stale = true
			return nil
		}
		if err := m.places(ctx, tx); err != nil {
			return err
		}
		if err := m.runs(ctx, tx); err != nil {
			return err
		}
		for _, e := range m.view.Events {
			if known[eventKey{e.LaunchID, e.Seq}] {
				continue
			}
			if err := insertEvent(ctx, tx, e); err != nil {
				return fmt.Errorf("event %d of launch %s: %w", e.Seq, e.LaunchID, err)
			}
			m.done.Events++
		}
		if err := m.artifacts(ctx, tx); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE sweep SET state = $2, ended_us = $3 WHERE id = $1`,
			m.sweepID, string(m.view.Sweep.State), m.view.Sweep.EndedUs)
		return err
	})
}

// begin inserts the sweep where it is new, else it gives the events that are
// known of it.
func (m *merge) begin(ctx context.Context, tx *sql.Tx) (known map[eventKey]bool, err error) {
	known = map[eventKey]bool{}
	here, err := collect(ctx, tx, scanSweep, selectSweep+` WHERE id = $1`, m.sweepID)
	if err != nil {
		return nil, err
	}
	if len(here) == 0 {
		return known, insertSweep(ctx, tx, m.view.Sweep)
	}
	if here[0].PlanSHA != m.view.Sweep.PlanSHA || here[0].CreatedUs != m.view.Sweep.CreatedUs {
		return nil, ErrExists
	}
	err = each(ctx, tx, func(rows *sql.Rows) error {
		var k eventKey
		err := rows.Scan(&k.launch, &k.seq)
		known[k] = true
		return err
	}, `SELECT launch_id, seq FROM event WHERE launch_id IN (SELECT id FROM launch WHERE sweep_id = $1)`, m.sweepID)
	return known, err
}

// compare says whether the other journal has events that are not here, and the
// other way round.
func (m *merge) compare(known map[eventKey]bool) (ahead, behind bool) {
	common := 0
	for _, e := range m.view.Events {
		if known[eventKey{e.LaunchID, e.Seq}] {
			common++
		}
	}
	return common < len(m.view.Events), common < len(known)
}

// places brings cells, slots and launches, whose ids say what they are.
func (m *merge) places(ctx context.Context, tx *sql.Tx) error {
	for _, c := range m.view.Cells {
		if err := extendCell(ctx, tx, c); err != nil {
			return fmt.Errorf("cell %s: %w", c.ID, err)
		}
	}
	for i, sl := range m.view.Slots {
		if _, err := extendSlot(ctx, tx, m.sweepID, sl, i); err != nil {
			return fmt.Errorf("slot %s: %w", sl.ID, err)
		}
		closed := 0
		if sl.Closed {
			closed = 1
		}
		if _, err := tx.ExecContext(ctx, `UPDATE slot SET closed = $2 WHERE id = $1`, sl.ID, closed); err != nil {
			return fmt.Errorf("slot %s: %w", sl.ID, err)
		}
	}
	for _, l := range m.view.Launches {
		if err := putLaunch(ctx, tx, l); err != nil {
			return err
		}
	}
	return nil
}

// runs brings runs and their data, in the order in which they began. Those that
// leave their slot come first: it has room for one result.
func (m *merge) runs(ctx context.Context, tx *sql.Tx) error {
	fills := func(s record.RunState) bool { return s == record.RunDone || s == record.RunFailed }
	for _, leaving := range []bool{true, false} {
		for _, r := range m.view.Runs {
			was, known := m.had[r.ID]
			if known && was == r.State || (known && fills(was) && !fills(r.State)) != leaving {
				continue
			}
			if err := m.run(ctx, tx, r, known); err != nil {
				return err
			}
			m.done.Runs++
		}
	}
	return m.label(ctx, tx)
}

// label puts the labels on runs that ended before, and got them since.
func (m *merge) label(ctx context.Context, tx *sql.Tx) error {
	here, err := labelsOf(ctx, tx, m.sweepID)
	if err != nil {
		return err
	}
	for run, labels := range m.labels {
		fresh := slices.DeleteFunc(slices.Clone(labels), func(l record.Label) bool { return slices.Contains(here[run], l) })
		if len(fresh) == 0 {
			continue
		}
		if err := addLabels(ctx, tx, run, fresh); err != nil {
			return err
		}
	}
	return nil
}

func labelsOf(ctx context.Context, tx *sql.Tx, sweepID string) (map[string][]record.Label, error) {
	by := map[string][]record.Label{}
	err := each(ctx, tx, func(rows *sql.Rows) error {
		var run string
		var l record.Label
		err := rows.Scan(&run, &l.Name, &l.Reason)
		by[run] = append(by[run], l)
		return err
	}, `SELECT run_id, name, reason FROM label WHERE run_id IN
		(SELECT run.id FROM run JOIN launch ON launch.id = run.launch_id WHERE launch.sweep_id = $1) ORDER BY run_id, ord`, sweepID)
	return by, err
}

func (m *merge) run(ctx context.Context, tx *sql.Tx, r record.Run, known bool) error {
	var err error
	if known {
		_, err = tx.ExecContext(ctx, `UPDATE run SET state = $2, class = $3, reason = $4, start_us = $5, end_us = $6 WHERE id = $1`,
			r.ID, string(r.State), string(r.Class), r.Reason, r.StartUs, r.EndUs)
		err = runError(r, err)
	} else {
		err = insertRun(ctx, tx, r)
	}
	if err != nil {
		return err
	}
	return putData(ctx, tx, r.ID, m.data[r.ID])
}

// artifacts lists the kept files that are not listed so yet.
func (m *merge) artifacts(ctx context.Context, tx *sql.Tx) error {
	type place struct{ launch, run, name, sha string }
	listed := map[place]bool{}
	err := each(ctx, tx, func(rows *sql.Rows) error {
		a, err := m.to.scanArtifact(rows)
		listed[place{a.LaunchID, a.RunID, a.Name, a.SHA256}] = true
		return err
	}, selectArtifact+` WHERE launch_id IN (SELECT id FROM launch WHERE sweep_id = $1)`, m.sweepID)
	if err != nil {
		return err
	}
	for _, a := range m.view.Artifact {
		if listed[place{a.LaunchID, a.RunID, a.Name, a.SHA256}] {
			continue
		}
		if err := m.to.putArtifact(ctx, tx, a); err != nil {
			return fmt.Errorf("%s of launch %s: %w", a.Name, a.LaunchID, err)
		}
	}
	return nil
}
