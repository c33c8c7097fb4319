// Package recordertest has a recorder in memory and the contract that every
// recorder keeps. Only tests import it.
package recordertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"specrun/experiments/record"
)

// Recorder is experiments.Recorder, said here again so that tests inside that
// package can import this one.
type Recorder interface {
	Begin(ctx context.Context, p record.SweepPlan) error
	Extend(ctx context.Context, sweepID string, cells []record.Cell, slots []record.Slot, closed ...string) error
	Record(ctx context.Context, e record.Event, c record.Change) error
	View(ctx context.Context, sweepID string) (record.SweepView, error)
	Claim(ctx context.Context, sweepID, controller string, expiresUs int64) error
	Cut(ctx context.Context, sweepID string, atUs int64) error
	Attach(ctx context.Context, a record.Artifact, content io.Reader) (record.Artifact, error)
	Kept(ctx context.Context, sha256 string) (io.ReadCloser, int64, error)
}

// ClaimedError says who holds a claim.
type ClaimedError struct {
	Controller string
	ExpiresUs  int64
}

func (e *ClaimedError) Error() string { return "claimed by " + e.Controller }

// Holder implements experiments.ClaimHolder.
func (e *ClaimedError) Holder() (string, int64) { return e.Controller, e.ExpiresUs }

// Memory is a recorder in memory, safe for concurrent use. It keeps the rules
// that the store's schema keeps and refuses a change as a whole.
type Memory struct {
	NowUs func() int64 // nil: claims never expire

	mu     sync.Mutex
	views  map[string]*record.SweepView
	claims map[string]ClaimedError
	files  map[string][]byte
}

// Begin implements Recorder.
func (m *Memory) Begin(_ context.Context, p record.SweepPlan) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.views == nil {
		m.views, m.claims, m.files = map[string]*record.SweepView{}, map[string]ClaimedError{}, map[string][]byte{}
	}
	if _, dup := m.views[p.Sweep.ID]; dup {
		return fmt.Errorf("sweep %s is begun already", p.Sweep.ID)
	}
	m.views[p.Sweep.ID] = &record.SweepView{Sweep: p.Sweep, Cells: slices.Clone(p.Cells), Slots: slices.Clone(p.Slots), Data: map[string]record.RunData{}}
	return nil
}

// Extend implements Recorder.
func (m *Memory) Extend(_ context.Context, sweepID string, cells []record.Cell, slots []record.Slot, closed ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.views[sweepID]
	if !ok {
		return fmt.Errorf("no sweep %s", sweepID)
	}
	next := *v
	next.Cells, next.Slots = slices.Clone(v.Cells), slices.Clone(v.Slots)
	for _, c := range cells {
		i := slices.IndexFunc(next.Cells, func(o record.Cell) bool { return o.ID == c.ID || o.Ord == c.Ord })
		switch {
		case c.SweepID != sweepID:
			return fmt.Errorf("cell %s is of sweep %q", c.ID, c.SweepID)
		case i < 0:
			next.Cells = append(next.Cells, c)
		case next.Cells[i].ID != c.ID || next.Cells[i].Ord != c.Ord || next.Cells[i].Key != c.Key:
			return fmt.Errorf("cell %s is there already, and another one", c.ID)
		}
	}
	for _, s := range slots {
		i := slices.IndexFunc(next.Slots, func(o record.Slot) bool {
			return o.ID == s.ID || o.CellID == s.CellID && o.Round == s.Round && o.Repeat == s.Repeat
		})
		switch {
		case !slices.ContainsFunc(next.Cells, func(c record.Cell) bool { return c.ID == s.CellID }):
			return fmt.Errorf("slot %s: no cell %s", s.ID, s.CellID)
		case i < 0:
			next.Slots = append(next.Slots, s)
		case next.Slots[i].ID != s.ID || next.Slots[i].CellID != s.CellID || next.Slots[i].Round != s.Round || next.Slots[i].Repeat != s.Repeat:
			return fmt.Errorf("slot %s is there already, and another one", s.ID)
		default:
			next.Slots[i].Closed = false
		}
	}
	for i, s := range next.Slots {
		if slices.Contains(closed, s.CellID) && !slices.ContainsFunc(next.Runs, func(r record.Run) bool {
			return r.SlotID == s.ID && (r.State == record.RunDone || r.State == record.RunFailed)
		}) {
			next.Slots[i].Closed = true
		}
	}
	slices.SortStableFunc(next.Cells, func(a, b record.Cell) int { return a.Ord - b.Ord })
	*v = next
	return nil
}

// Record implements Recorder.
func (m *Memory) Record(_ context.Context, e record.Event, c record.Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.sweepOf(e, c)
	if err != nil {
		return err
	}
	next := *v
	next.Launches, next.Runs, next.Events = slices.Clone(v.Launches), slices.Clone(v.Runs), slices.Clone(v.Events)
	if err := apply(&next, e, c); err != nil {
		return fmt.Errorf("event %d (%s %s) of launch %s: %w", e.Seq, e.Step, e.Kind, e.LaunchID, err)
	}
	for run, labels := range c.Labels {
		if err := addLabels(&next, run, labels); err != nil {
			return err
		}
	}
	if c.Data != nil {
		next.Data[c.Run.ID] = *c.Data
	}
	*v = next
	return nil
}

func addLabels(v *record.SweepView, run string, labels []record.Label) error {
	i := slices.IndexFunc(v.Runs, func(r record.Run) bool { return r.ID == run })
	if i < 0 || v.Runs[i].State == record.RunActive {
		return fmt.Errorf("labels of run %s, which has not ended", run)
	}
	d := v.Data[run]
	for _, l := range labels {
		d.Labels = append(slices.DeleteFunc(slices.Clone(d.Labels), func(o record.Label) bool { return o.Name == l.Name }), l)
	}
	v.Data[run] = d
	return nil
}

func (m *Memory) sweepOf(e record.Event, c record.Change) (*record.SweepView, error) {
	if c.Launch != nil {
		if v, ok := m.views[c.Launch.SweepID]; ok {
			return v, nil
		}
	}
	for _, v := range m.views {
		if slices.ContainsFunc(v.Launches, func(l record.Launch) bool { return l.ID == e.LaunchID }) {
			return v, nil
		}
	}
	return nil, fmt.Errorf("no launch %s", e.LaunchID)
}

func apply(v *record.SweepView, e record.Event, c record.Change) error {
	if c.Launch != nil {
		i := slices.IndexFunc(v.Launches, func(l record.Launch) bool { return l.ID == c.Launch.ID })
		switch {
		case i < 0:
			v.Launches = append(v.Launches, *c.Launch)
		case v.Launches[i].State != record.LaunchActive && v.Launches[i].State != record.LaunchPlanned && v.Launches[i].State != c.Launch.State:
			return fmt.Errorf("launch is %s already", v.Launches[i].State)
		default:
			v.Launches[i] = *c.Launch
		}
	}
	if c.Supersede != "" {
		i := slices.IndexFunc(v.Runs, func(r record.Run) bool { return r.ID == c.Supersede })
		if i < 0 || v.Runs[i].State != record.RunFailed {
			return fmt.Errorf("no failed run %s to supersede", c.Supersede)
		}
		v.Runs[i].State = record.RunSuperseded
	}
	if c.Run != nil {
		if err := applyRun(v, *c.Run); err != nil {
			return err
		}
	}
	if c.Data != nil && c.Run == nil {
		return errors.New("data without its run")
	}
	if c.SweepState != "" {
		if c.SweepID != v.Sweep.ID {
			return fmt.Errorf("state for sweep %q", c.SweepID)
		}
		v.Sweep.State = c.SweepState
		v.Sweep.EndedUs = 0
		if c.SweepState != record.SweepActive {
			v.Sweep.EndedUs = e.AtUs
		}
	}
	if e.RunID != "" && !slices.ContainsFunc(v.Runs, func(r record.Run) bool { return r.ID == e.RunID }) {
		return fmt.Errorf("no run %s", e.RunID)
	}
	if slices.ContainsFunc(v.Events, func(o record.Event) bool { return o.LaunchID == e.LaunchID && o.Seq == e.Seq }) {
		return errors.New("recorded already")
	}
	v.Events = append(v.Events, e)
	return nil
}

func ended(s record.RunState) bool { return s == record.RunDone || s == record.RunFailed }

func applyRun(v *record.SweepView, r record.Run) error {
	if !slices.ContainsFunc(v.Slots, func(s record.Slot) bool { return s.ID == r.SlotID }) {
		return fmt.Errorf("no slot %s", r.SlotID)
	}
	at := -1
	for i, o := range v.Runs {
		switch {
		case o.ID == r.ID && o.State != record.RunActive && o.State != r.State:
			return fmt.Errorf("run %s is %s already", o.ID, o.State)
		case o.ID == r.ID:
			at = i
		case o.SlotID == r.SlotID && o.Attempt == r.Attempt:
			return fmt.Errorf("attempt %d at slot %s is taken", r.Attempt, r.SlotID)
		case o.SlotID == r.SlotID && ended(o.State) && ended(r.State):
			return fmt.Errorf("slot %s is filled", r.SlotID)
		}
	}
	if at < 0 {
		v.Runs = append(v.Runs, r)
		return nil
	}
	v.Runs[at] = r
	return nil
}

// View implements Recorder.
func (m *Memory) View(_ context.Context, sweepID string) (record.SweepView, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.views[sweepID]
	if !ok {
		return record.SweepView{}, fmt.Errorf("no sweep %s", sweepID)
	}
	out := *v
	out.Cells, out.Slots = slices.Clone(v.Cells), slices.Clone(v.Slots)
	out.Launches, out.Runs, out.Events = slices.Clone(v.Launches), slices.Clone(v.Runs), slices.Clone(v.Events)
	out.Artifact = slices.Clone(v.Artifact)
	out.Data = map[string]record.RunData{}
	for id, d := range v.Data {
		out.Data[id] = d
	}
	return out, nil
}

// Claim implements Recorder.
func (m *Memory) Claim(_ context.Context, sweepID, controller string, expiresUs int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.views[sweepID]; !ok {
		return fmt.Errorf("no sweep %s", sweepID)
	}
	held, ok := m.claims[sweepID]
	if ok && held.Controller != controller && (m.NowUs == nil || held.ExpiresUs > m.NowUs()) {
		return &held
	}
	if expiresUs == 0 {
		delete(m.claims, sweepID)
		return nil
	}
	m.claims[sweepID] = ClaimedError{controller, expiresUs}
	return nil
}

// Cut implements Recorder.
func (m *Memory) Cut(_ context.Context, sweepID string, atUs int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.views[sweepID]
	if !ok {
		return fmt.Errorf("no sweep %s", sweepID)
	}
	if len(v.Launches) == 0 && v.Sweep.State == record.SweepActive {
		v.Sweep.State, v.Sweep.EndedUs = record.SweepInterrupted, atUs
	}
	return nil
}

// Attach implements Recorder.
func (m *Memory) Attach(_ context.Context, a record.Artifact, content io.Reader) (record.Artifact, error) {
	var b bytes.Buffer
	if _, err := b.ReadFrom(content); err != nil {
		return a, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := sha256.Sum256(b.Bytes())
	a.SHA256, a.Bytes = hex.EncodeToString(sum[:]), int64(b.Len())
	a.Path = "/memory/" + a.SHA256
	for _, v := range m.views {
		if !slices.ContainsFunc(v.Launches, func(l record.Launch) bool { return l.ID == a.LaunchID }) {
			continue
		}
		m.files[a.SHA256] = b.Bytes()
		i := slices.IndexFunc(v.Artifact, func(o record.Artifact) bool {
			return o.RunID == a.RunID && o.LaunchID == a.LaunchID && o.Name == a.Name
		})
		if i < 0 {
			v.Artifact = append(v.Artifact, a)
		} else {
			v.Artifact[i] = a
		}
		return a, nil
	}
	return a, fmt.Errorf("no launch %s", a.LaunchID)
}

// Kept implements Recorder.
func (m *Memory) Kept(_ context.Context, sum string) (io.ReadCloser, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.files[sum]
	if !ok {
		return nil, 0, fmt.Errorf("no kept file %s", sum)
	}
	return io.NopCloser(bytes.NewReader(content)), int64(len(content)), nil
}

// Content is what an artifact holds.
func (m *Memory) Content(a record.Artifact) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.files[a.SHA256])
}
