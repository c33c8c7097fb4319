package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"specrun/experiments"
	"specrun/experiments/report"
	"specrun/experiments/store"
)

// refHelp explains references in the help of commands that take them.
const refHelp = `A reference is a run, a sweep, a cell of a sweep (k3v7/steps=2, k3v7/baseline), a
tag, "last", or the path of a log or benchmark output, which is read and not
stored. An id may be cut to any beginning that fits only one.`

// sides resolves references. The results are opened only when one of them may be
// there, so that two files are compared without any.
func (a *app) sides(ctx context.Context, refs ...string) (out []report.Side, err error) {
	var s *store.Store
	defer func() {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, ref := range refs {
		if s == nil && !isPath(ref) {
			if s, err = a.readStore(ctx); err != nil && !isFile(ref) {
				return nil, err
			}
		}
		side, err := a.side(ctx, s, ref)
		if err != nil {
			return nil, err
		}
		out = append(out, side)
	}
	return out, nil
}

// side resolves one reference; s is nil when there are no results. An id, or the
// beginning of one, comes before a file of that name: ./NAME is the file.
func (a *app) side(ctx context.Context, s *store.Store, ref string) (report.Side, error) {
	if isPath(ref) || s == nil {
		return a.fileSide(ref)
	}
	side, err := a.stored(ctx, s, ref)
	if !errors.Is(err, store.ErrNotFound) {
		return side, err
	}
	if isFile(ref) {
		return a.fileSide(ref)
	}
	return report.Side{}, usagef(`"specrun list" shows sweeps, "specrun list --runs" runs, "specrun tag" tags; --store names another store`,
		"%s: no such run, sweep, cell, tag or file", ref)
}

// stored resolves a reference to something stored: what storedSide knows, and a
// cell as SWEEP/CELL. It fails with store.ErrNotFound where there is none.
func (a *app) stored(ctx context.Context, s *store.Store, ref string) (report.Side, error) {
	side, err := a.storedSide(ctx, s, ref)
	sweep, cell, ok := strings.Cut(ref, "/")
	if !ok || !errors.Is(err, store.ErrNotFound) {
		return side, err
	}
	id, inner := a.storedSide(ctx, s, sweep)
	switch {
	case errors.Is(inner, store.ErrNotFound): // perhaps a path
		return report.Side{}, err
	case inner != nil:
		return report.Side{}, inner
	case id.Kind != report.SideSweep:
		return report.Side{}, usagef(`"specrun list" shows the sweeps`, "%s: %s is a %s, and has no cells", ref, sweep, id.Kind)
	}
	c, err := report.FindCell(id.View, cell)
	if err != nil {
		return report.Side{}, err
	}
	id.Ref, id.Kind, id.Cells = ref, report.SideCell, []string{c.ID}
	return id, nil
}

// storedSide resolves "last", a tag, or the id of a sweep or run.
func (a *app) storedSide(ctx context.Context, s *store.Store, ref string) (report.Side, error) {
	side := report.Side{Ref: ref, Kind: report.SideSweep}
	tag, err := s.Tag(ctx, ref)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return side, err
	}
	sweep := tag.SweepID
	switch {
	case tag.RunID != "":
		side.Kind, side.Run = report.SideRun, tag.RunID
	case tag.CellID != "":
		side.Kind, side.Cells = report.SideCell, []string{tag.CellID}
	case sweep == "":
		sweep, err = a.sweepID(ctx, s, ref)
		if errors.Is(err, store.ErrNotFound) && ref != lastSweep {
			sweep = ""
			side.Kind = report.SideRun
			side.Run, err = s.RunID(ctx, ref)
		}
		if err != nil {
			return side, err
		}
	}
	if sweep == "" {
		cell := ""
		if len(side.Cells) > 0 {
			cell = side.Cells[0]
		}
		if sweep, err = s.SweepOf(ctx, cell, side.Run); err != nil {
			return side, err
		}
	}
	if side.View, err = s.View(ctx, sweep); err != nil {
		return side, err
	}
	if side.Run != "" {
		side.Cells = []string{cellOf(side)}
	}
	return side, nil
}

// cellOf is the cell of the run that a side means.
func cellOf(side report.Side) string {
	for _, r := range side.View.Runs {
		if r.ID == side.Run {
			for _, sl := range side.View.Slots {
				if sl.ID == r.SlotID {
					return sl.CellID
				}
			}
		}
	}
	return "" // a foreign key says that it is there
}

func (a *app) fileSide(path string) (report.Side, error) {
	f, err := os.Open(path)
	if err != nil {
		return report.Side{}, usagef("", "%s", err)
	}
	defer f.Close()
	runs, err := experiments.ReadLog(f, path)
	if err != nil {
		return report.Side{}, err
	}
	if len(runs) == 0 {
		return report.Side{}, usagef(`"specrun parse" shows what specrun reads out of a file`, "%s: nothing in it that specrun can read", path)
	}
	return report.FileSide(path, runs), nil
}

// isPath says that a reference cannot be anything but a file.
func isPath(ref string) bool {
	return filepath.IsAbs(ref) || strings.HasPrefix(ref, "./") || strings.HasPrefix(ref, "../")
}

func isFile(ref string) bool {
	info, err := os.Stat(ref)
	return err == nil && !info.IsDir()
}
