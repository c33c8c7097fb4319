package store

import (
	"database/sql"
	"fmt"
	"path/filepath"

	"specrun/experiments/record"
)

// The columns of each table, in the order in which its scan function reads them.
const (
	selectSweep    = `SELECT id, name, kind, spec, plan, plan_sha, state, created_us, ended_us FROM sweep`
	selectCell     = `SELECT id, sweep_id, ord, key, params, baseline FROM cell`
	selectSlot     = `SELECT id, cell_id, round, repeat, closed FROM slot`
	selectLaunch   = `SELECT id, sweep_id, host, round, argv, identity, state FROM launch`
	selectRun      = `SELECT id, slot_id, attempt, launch_id, host, state, class, reason, start_us, end_us FROM run`
	selectEvent    = `SELECT launch_id, seq, COALESCE(run_id, ''), at_us, host_at_us, step, kind, evidence FROM event`
	selectArtifact = `SELECT COALESCE(run_id, ''), launch_id, name, path, sha256, bytes FROM artifact`
	selectMetric   = `SELECT run_id, name, unit, value, value_special, n, source FROM metric`
	selectSample   = `SELECT run_id, seq, at_us, name, unit, value, value_special, source, labels FROM sample`
	selectCheck    = `SELECT run_id, name, outcome, left_value, left_special, right_value, right_special, explanation FROM trust_check`
)

func scanSweep(rows *sql.Rows) (record.Sweep, error) {
	var s record.Sweep
	var spec, plan []byte
	err := rows.Scan(&s.ID, &s.Name, &s.Kind, &spec, &plan, &s.PlanSHA, &s.State, &s.CreatedUs, &s.EndedUs)
	s.Spec, s.Plan = spec, plan
	return s, err
}

func scanCell(rows *sql.Rows) (record.Cell, error) {
	var c record.Cell
	var params string
	var baseline int
	if err := rows.Scan(&c.ID, &c.SweepID, &c.Ord, &c.Key, &params, &baseline); err != nil {
		return c, err
	}
	c.Baseline = baseline != 0
	var err error
	if c.Params, err = decodeParams(params); err != nil {
		return c, fmt.Errorf("cell %s: %w", c.ID, err)
	}
	return c, nil
}

func scanSlot(rows *sql.Rows) (record.Slot, error) {
	var sl record.Slot
	err := rows.Scan(&sl.ID, &sl.CellID, &sl.Round, &sl.Repeat, &sl.Closed)
	return sl, err
}

func scanLaunch(rows *sql.Rows) (record.Launch, error) {
	var l record.Launch
	var argv, identity []byte
	if err := rows.Scan(&l.ID, &l.SweepID, &l.Host, &l.Round, &argv, &identity, &l.State); err != nil {
		return l, err
	}
	l.Identity = identity
	if err := decode("argv", argv, &l.Argv); err != nil {
		return l, fmt.Errorf("launch %s: %w", l.ID, err)
	}
	return l, nil
}

func scanRun(rows *sql.Rows) (record.Run, error) {
	var r record.Run
	err := rows.Scan(&r.ID, &r.SlotID, &r.Attempt, &r.LaunchID, &r.Host, &r.State, &r.Class, &r.Reason, &r.StartUs, &r.EndUs)
	return r, err
}

func scanEvent(rows *sql.Rows) (record.Event, error) {
	var e record.Event
	var evidence []byte
	err := rows.Scan(&e.LaunchID, &e.Seq, &e.RunID, &e.AtUs, &e.HostAtUs, &e.Step, &e.Kind, &evidence)
	e.Evidence = evidence
	return e, err
}

func (s *Store) scanArtifact(rows *sql.Rows) (record.Artifact, error) {
	var a record.Artifact
	err := rows.Scan(&a.RunID, &a.LaunchID, &a.Name, &a.Path, &a.SHA256, &a.Bytes)
	a.Path = filepath.Join(filepath.Dir(s.path), filepath.FromSlash(a.Path))
	return a, err
}

func scanMetric(rows *sql.Rows) (run string, m record.Metric, err error) {
	var v *float64
	var special string
	if err = rows.Scan(&run, &m.Name, &m.Unit, &v, &special, &m.N, &m.Source); err != nil {
		return run, m, err
	}
	if m.Value, err = fromNumber(v, special); err != nil {
		err = fmt.Errorf("metric %s of run %s: %w", m.Name, run, err)
	}
	return run, m, err
}

func scanSample(rows *sql.Rows) (run string, sm record.Sample, err error) {
	var v *float64
	var special string
	var labels []byte
	if err = rows.Scan(&run, &sm.Seq, &sm.AtUs, &sm.Name, &sm.Unit, &v, &special, &sm.Source, &labels); err != nil {
		return run, sm, err
	}
	if sm.Value, err = fromNumber(v, special); err == nil {
		err = decode("labels", labels, &sm.Labels)
	}
	if err != nil {
		err = fmt.Errorf("sample %s of run %s: %w", sm.Name, run, err)
	}
	return run, sm, err
}

func scanCheck(rows *sql.Rows) (run string, c record.TrustCheck, err error) {
	var left, right *float64
	var leftSpecial, rightSpecial string
	if err = rows.Scan(&run, &c.Name, &c.Outcome, &left, &leftSpecial, &right, &rightSpecial, &c.Explanation); err != nil {
		return run, c, err
	}
	if c.Left, err = fromNumber(left, leftSpecial); err == nil {
		c.Right, err = fromNumber(right, rightSpecial)
	}
	if err != nil {
		err = fmt.Errorf("check %s of run %s: %w", c.Name, run, err)
	}
	return run, c, err
}
