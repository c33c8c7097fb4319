package main

import (
	"context"

	"github.com/spf13/cobra"

	"specrun/experiments/report"
	"specrun/experiments/store"
)

func newTagCommand(a *app) *cobra.Command {
	var remove bool
	c := &cobra.Command{
		Use:   "tag [NAME ID]",
		Short: "Name a sweep, cell or run; without arguments list the names",
		Long: `Name a sweep, a cell of one (k3v7/steps=2) or a run, so that compare, diff and
show understand the name. Setting a tag again moves it; -d forgets it and leaves
what it names. Without arguments the tags are listed.` + exitStatus(exitOK, exitFailed, exitUsage),
		Example: `  specrun tag before-upgrade last
  specrun tag
  specrun tag -d before-upgrade`,
		Args: atMost(2),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case remove && len(args) == 1:
				return a.runUntag(c.Context(), args[0])
			case remove:
				return usagef("specrun tag -d NAME", "-d takes the name of one tag")
			case len(args) == 1:
				return usagef("specrun tag NAME ID sets a tag, specrun tag lists them", "tag: %s of what?", args[0])
			case len(args) == 0:
				return a.runTags(c.Context())
			}
			return a.runTag(c.Context(), args[0], args[1])
		},
	}
	c.Flags().BoolVarP(&remove, "delete", "d", false, "forget the tag")
	return c
}

// tagLine is the JSON line of type tag.
type tagLine struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // sweep, cell or run
	ID   string `json:"id"`
}

// lineOf names what a tag names as other commands take it: a cell as SWEEP/CELL.
func lineOf(ctx context.Context, s *store.Store, t store.Tag) (tagLine, error) {
	switch {
	case t.RunID != "":
		return tagLine{t.Name, report.SideRun, t.RunID}, nil
	case t.CellID == "":
		return tagLine{t.Name, report.SideSweep, t.SweepID}, nil
	}
	sweep, err := s.SweepOf(ctx, t.CellID, "")
	if err != nil {
		return tagLine{}, err
	}
	view, err := s.View(ctx, sweep)
	return tagLine{t.Name, report.SideCell, report.CellRef(view, t.CellID)}, err
}

func (a *app) runTags(ctx context.Context) error {
	s, err := a.readStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	tags, err := s.Tags(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, t := range tags {
		l, err := lineOf(ctx, s, t)
		if err != nil {
			return err
		}
		if a.flags.json {
			a.line("tag", l)
			continue
		}
		rows = append(rows, []string{l.Name, l.Kind, l.ID})
	}
	if len(rows) == 0 {
		a.printf("no tags; specrun tag NAME ID sets one\n")
		return nil
	}
	a.table([]string{"TAG", "KIND", "OF"}, rows)
	return nil
}

func (a *app) runTag(ctx context.Context, name, ref string) error {
	s, err := a.readStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	side, err := a.side(ctx, s, ref)
	if err != nil {
		return err
	}
	t := store.Tag{Name: name}
	switch side.Kind {
	case report.SideFile:
		return usagef("specrun import stores it as a run first", "tag %s: %s is a file, not a stored result", name, ref)
	case report.SideRun:
		t.RunID = side.Run
	case report.SideCell:
		t.CellID = side.Cells[0]
	default:
		t.SweepID = side.View.Sweep.ID
	}
	was, err := s.SetTag(ctx, t)
	if err != nil {
		return err
	}
	l, err := lineOf(ctx, s, t)
	if err != nil {
		return err
	}
	if a.flags.json {
		a.line("tag", l)
		return nil
	}
	moved := ""
	if was != nil {
		before, err := lineOf(ctx, s, *was)
		if err != nil {
			return err
		}
		if before != l {
			moved = ", was " + before.Kind + " " + before.ID
		}
	}
	a.printf("%s: %s %s%s\n", l.Name, l.Kind, l.ID, moved)
	return nil
}

func (a *app) runUntag(ctx context.Context, name string) error {
	s, err := a.readStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.DeleteTag(ctx, name); err != nil {
		return err
	}
	a.printf("%s: no tag any more\n", name)
	return nil
}
