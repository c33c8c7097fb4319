package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"specrun/experiments"
)

// readFound reads what a plan depends on on its host: what is deployed for the
// interpreter (nothing, of a server that somebody else runs with one that nobody
// named), and what the end of a sweep will bring back.
func readFound(ctx context.Context, h *experiments.Host, spec *experiments.Spec, w experiments.Where) (state experiments.PatchState, notes []string, err error) {
	if spec.Server.Attach == nil || w.Python != "" {
		if state, err = h.Patcher.Current(ctx, w); err != nil {
			return state, nil, err
		}
	}
	if spec.After != experiments.AfterRestore || spec.Server.Attach != nil {
		return state, nil, nil
	}
	saved, err := h.Foreign.Saved(ctx)
	if err != nil {
		return state, nil, err
	}
	for _, s := range saved {
		if experiments.Restores(s, time.Now()) {
			notes = append(notes, fmt.Sprintf("after: restore starts saved server %s again at the end (%s); specrun server saved forget %s --host %s drops it",
				s.ID, strings.Join(experiments.HideArgv(h.Name, s.Argv), " "), s.ID, h.Name))
		}
	}
	return state, notes, nil
}

// leftLine is a server that a sweep left running, in a JSON line.
type leftLine struct {
	Sweep    string   `json:"sweep"`
	Host     string   `json:"host"`
	After    string   `json:"after"`
	Launch   string   `json:"launch"`
	PID      int      `json:"pid"`
	Port     int      `json:"port"`
	URL      string   `json:"url"` // as seen from the host
	Log      string   `json:"log"`
	Params   any      `json:"params"` // null: no cell's
	Baseline bool     `json:"baseline"`
	Patches  []string `json:"patches"`
	Saved    string   `json:"saved,omitempty"`
}

// printLeft says which servers a sweep left running.
func (a *app) printLeft(s *experiments.Summary) {
	host := s.Host
	for _, l := range s.Left {
		line := leftLine{Sweep: s.SweepID, Host: host, After: string(l.After), Launch: l.Launch, PID: l.Identity.PID, Port: l.Port, URL: l.URL, Log: l.LogPath,
			Patches: refNames(l.Patches), Saved: l.Saved}
		text := fmt.Sprintf("the server that ran before (saved as %s) runs again", l.Saved)
		if l.Cell != nil {
			line.Params, line.Baseline = l.Cell.Params, l.Cell.Baseline
			text = fmt.Sprintf("the server of the best cell, %s, runs", cellName(l.Cell.Params, l.Cell.Baseline))
			if names := refNames(l.Patches); len(names) > 0 {
				text += " with " + stackName(names)
			} else {
				text += " without patches"
			}
		}
		if a.flags.json {
			a.line("left", line)
			continue
		}
		a.note("%s", a.noteText("after: ", fmt.Sprintf("%s: %s: %s, launch %s; specrun server stop --host %s ends it", host, text, cmp.Or(l.URL, "no port"), l.Launch, host)))
	}
}
