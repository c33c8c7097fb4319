package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"specrun/experiments"
)

func newWatchCommand(a *app) *cobra.Command {
	var t experiments.WatchTarget
	var every time.Duration
	c := &cobra.Command{
		Use:   "watch [LAUNCH]",
		Short: "Show what a server does, live",
		Long: `Show what a server writes to its log as it comes: TOTAL of a cycle, accept length,
tok/s, requests in work; of a server that a sweep measures also cell, run and how
far it is. The server is the one of ours that runs, the LAUNCH named, any process
(--pid) or whatever writes a log (--log). On a terminal one line is kept up to
date; else there is a line when something is new.

It ends when the server does, with its last words, and while a sweep is at work
goes on with the next launch; or when you interrupt it, which ends nothing else. A
connection that is lost is made again, and nothing of the log is missed. TTFT is in
no log: the table of a sweep has it.

A sweep that goes on there by itself (--detach) is followed as a whole, and what it
has measured is fetched; LAUNCH, --pid or --log show a server of it.` + exitStatus(exitOK, exitFailed, exitUsage, exitUnreachable),
		Example: `  specrun watch --host kimi-8gpu
  specrun watch --host kimi-8gpu --pid 4242
  specrun watch --host kimi-8gpu --log /data/server.log`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			t.Launch = firstArg(args)
			return a.runWatch(c.Context(), t, every)
		},
	}
	c.Flags().IntVar(&t.PID, "pid", 0, "process `N` on the host, whoever started it")
	c.Flags().StringVar(&t.Log, "log", "", "`PATH` of a log on the host")
	c.Flags().DurationVar(&every, "every", time.Second, "least `DURATION` between two lines when there is no terminal")
	return c
}

func (a *app) runWatch(ctx context.Context, t experiments.WatchTarget, every time.Duration) error {
	given := 0
	for _, is := range []bool{t.PID != 0, t.Log != "", t.Launch != ""} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return usagef("give one of them", "LAUNCH, --pid and --log name different servers")
	case t.PID < 0:
		return usagef("", "--pid %d is no process", t.PID)
	}
	spec, err := a.specForHosts()
	if err != nil {
		return err
	}
	entries, err := a.hostEntries(ctx, spec)
	if err != nil {
		return err
	}
	if len(entries) > 1 {
		return usagef("name one host", "watch of %d hosts at once", len(entries))
	}
	entry := entries[0]
	if given == 0 {
		if done, err := a.watchDetached(ctx, entry); done || err != nil {
			return err
		}
	}
	text := "no longer watched; nothing on the host was changed"
	a.stopping.Store(&text)
	defer a.tick()()
	s := &sights{a: a, every: every, live: a.live && a.stdoutTTY}
	w := experiments.Watcher{StateDir: entry.StateDir, Now: a.now, OnSight: s.see, OnNote: func(text string) { s.note(entry.Name, text) },
		Dial: func(ctx context.Context) (experiments.WatchHost, error) { return a.connect(ctx, entry) }}
	end, err := w.Watch(ctx, t)
	a.printer.done()
	s.flush()
	if err != nil || end == nil {
		return err
	}
	a.printEnd(*end)
	return nil
}

// sights prints what is seen of a server.
type sights struct {
	a     *app
	every time.Duration
	live  bool

	last  time.Time
	text  string // of the newest line, printed or not
	shown string // that was printed last
	held  *experiments.Watched
}

func (s *sights) see(w experiments.Watched) {
	s.text = watchedText(w)
	if s.live && !s.a.flags.json {
		s.a.setLive(s.text, nil)
		return
	}
	s.held = &w
	if now := s.a.now(); now.Sub(s.last) >= s.every {
		s.last = now
		s.flush()
	}
}

// flush prints what was held back, so that the newest numbers are never missing.
func (s *sights) flush() {
	if s.held == nil {
		return
	}
	w := *s.held
	s.held = nil
	switch {
	case s.a.flags.json:
		s.a.line("watch", w)
	case s.text != s.shown:
		s.shown = s.text
		s.a.printf("%s %s\n", time.UnixMicro(w.AtUs).Local().Format("15:04:05"), s.text)
	}
}

func (s *sights) note(host, text string) {
	s.a.note("%s", text)
	if s.a.flags.json {
		s.a.line("watch_note", struct {
			Host string `json:"host"`
			Text string `json:"text"`
		}{host, text})
	}
}

// watchedText is a moment on one line, what matters most first.
func watchedText(w experiments.Watched) string {
	parts := []string{w.Host}
	if w.Params != nil || w.Baseline {
		parts[0] += " " + cellName(w.Params, w.Baseline)
	}
	for _, m := range experiments.WatchedMetrics() {
		v, ok := w.Values[m.Name]
		if !ok {
			continue
		}
		number := fmt.Sprintf("%.2f", v)
		if m.Name == "running_req" || m.Name == "queue_req" {
			number = fmt.Sprintf("%.0f", v)
		} else if m.Name == "gen_throughput" {
			number = fmt.Sprintf("%.1f", v)
		}
		words := slices.DeleteFunc([]string{m.Title, number, m.Unit}, func(s string) bool { return s == "" })
		parts = append(parts, strings.Join(words, " "))
	}
	if len(w.Values) == 0 && w.LastLine != "" {
		parts = append(parts, w.LastLine)
	}
	if w.Run != "" {
		parts = append(parts, strings.TrimSpace("run "+w.Run+" "+w.Load))
	}
	return strings.Join(parts, " | ")
}

func (a *app) printEnd(e experiments.WatchEnd) {
	if a.flags.json {
		a.line("watch_end", e)
		return
	}
	what := fmt.Sprintf("%s: process %d has ended", e.Host, e.PID)
	switch {
	case e.Signal != 0:
		what += fmt.Sprintf(", by signal %d", e.Signal)
	case e.ExitCode >= 0:
		what += fmt.Sprintf(", exit status %d", e.ExitCode)
	}
	if e.Crash != "" {
		what += ": " + e.Crash
	}
	a.printf("%s\n", what)
	if len(e.Last) > 0 {
		a.printf("its last words:\n  %s\n", strings.Join(e.Last, "\n  "))
	}
}
