package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"specrun/configs"
	"specrun/experiments"
	"specrun/experiments/lab"
	"specrun/experiments/report"
	"specrun/experiments/store"
	"specrun/experiments/trust"
)

// proposedSweeps are how many of the newest sweeps a reference completes to.
const proposedSweeps = 10

// arrangeCompletion says for the shells what a word of each command may be. Only
// files here and the store are read: no host is asked. What cannot be read
// completes to nothing, since the prompt is no place for an error.
func (a *app) arrangeCompletion(root *cobra.Command) {
	words := map[string]cobra.CompletionFunc{
		"apply": a.completePatches, "rollback": a.completePatches, "patch show": a.completePatches,
		"run": a.completeKeys, "sweep": a.completeKeys, "server start": a.completeKeys, "server restart": a.completeKeys,
		"probe": func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return a.completePatches(c, args, word)
			}
			return a.completeKeys(c, args, word)
		},
		"resume": a.completeSweeps, "cancel": a.completeSweeps,
		"list": a.completeRefs, "show": a.completeRefs, "logs": a.completeRefs,
		"compare": orFile(a.completeRefs), "diff": orFile(a.completeRefs), "export": orFile(a.completeRefs),
		"tag": a.completeTags, "import": orFile(nil), "parse": orFile(nil),
	}
	flags := map[string]cobra.CompletionFunc{
		"host":   a.completeHosts,
		"label":  cobra.FixedCompletions(labelNames(), cobra.ShellCompDirectiveNoFileComp),
		"format": cobra.FixedCompletions([]string{"csv", "json", "benchfmt"}, cobra.ShellCompDirectiveNoFileComp),
		"set":    cobra.FixedCompletions(settingKeys(), cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp),
		"file":   cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt),
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for name, f := range flags {
			if c.LocalNonPersistentFlags().Lookup(name) != nil || c == root && c.PersistentFlags().Lookup(name) != nil {
				if err := c.RegisterFlagCompletionFunc(name, f); err != nil {
					panic(err) // twice, or no such flag: a mistake in this table
				}
			}
		}
		if !c.HasSubCommands() && c != root {
			if c.ValidArgsFunction = words[commandName(c)]; c.ValidArgsFunction == nil {
				c.ValidArgsFunction = cobra.NoFileCompletions
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// orFile also lets the shell propose files.
func orFile(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) (found []string, _ cobra.ShellCompDirective) {
		if f != nil && !isPath(word) {
			found, _ = f(c, args, word)
		}
		return found, cobra.ShellCompDirectiveKeepOrder
	}
}

func (a *app) completePatches(_ *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
	if strings.Contains(word, "/") {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	found, err := a.listPatches()
	unread(err)
	var names []string
	for _, p := range found {
		names = append(names, cobra.CompletionWithDesc(p.Name, p.Summary))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeHosts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	names := []string{cobra.CompletionWithDesc(labHost, "the practice host"), cobra.CompletionWithDesc("local", "this machine")}
	hosts, err := a.loadHosts()
	if err != nil {
		unread(err)
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return append(append(hosts.Names(), hosts.Groups()...), names...), cobra.ShellCompDirectiveNoFileComp
}

// completeKeys proposes the params of the spec, then the values that the spec has
// for one.
func (a *app) completeKeys(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	spec, err := a.specForCompletion(c)
	if err != nil || spec == nil {
		unread(err)
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []string
	key, _, chosen := strings.Cut(word, "=")
	for _, p := range spec.Params {
		switch {
		case !chosen:
			found = append(found, cobra.CompletionWithDesc(p.Name+"=", p.Help))
		case p.Name == key:
			for _, v := range p.Values {
				found = append(found, key+"="+v.Text)
			}
		}
	}
	if chosen {
		return found, cobra.ShellCompDirectiveNoFileComp
	}
	found = append(found, "patches=", "flag.", "env.", "bench.")
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// specForCompletion is the experiment file that the command line so far means.
func (a *app) specForCompletion(c *cobra.Command) (*experiments.Spec, error) {
	host := configs.Host{}
	if len(a.flags.hosts) > 0 {
		hosts, err := a.loadHosts()
		if err != nil {
			return nil, err
		}
		if host, err = hosts.Resolve(a.flags.hosts[0]); err != nil {
			return nil, err
		}
	}
	file, err := c.Flags().GetString("file")
	if err != nil {
		return nil, err
	}
	spec, _, err := a.optionalSpec(file, host)
	return spec, err
}

// completeRefs proposes "last", the tags and the newest sweeps; behind SWEEP/ its
// cells.
func (a *app) completeRefs(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	s, err := a.readStore(c.Context())
	if err != nil {
		unread(err)
		return nil, directive
	}
	defer s.Close()
	var found []string
	if sweep, _, ok := strings.Cut(word, "/"); ok {
		side, err := a.storedSide(c.Context(), s, sweep)
		unread(err)
		varying := report.VaryingParams(side.View.Cells)
		for _, cell := range side.View.Cells {
			found = append(found, sweep+"/"+strings.ReplaceAll(report.CellName(cell, varying), " ", ","))
		}
		return found, directive
	}
	found = append(found, cobra.CompletionWithDesc(lastSweep, "the one begun last"))
	found = append(found, tagNames(c, s)...)
	return append(found, newestSweeps(c, s)...), directive
}

// completeTags proposes tags, to be moved or forgotten, then what one may name.
func (a *app) completeTags(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return a.completeRefs(c, args, word)
	}
	s, err := a.readStore(c.Context())
	if err != nil {
		unread(err)
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer s.Close()
	return tagNames(c, s), cobra.ShellCompDirectiveNoFileComp
}

func tagNames(c *cobra.Command, s *store.Store) (names []string) {
	tags, err := s.Tags(c.Context())
	unread(err)
	for _, t := range tags {
		names = append(names, cobra.CompletionWithDesc(t.Name, "tag"))
	}
	return names
}

func (a *app) completeSweeps(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	if len(args) > 0 {
		return nil, directive
	}
	s, err := a.readStore(c.Context())
	if err != nil {
		unread(err)
		return nil, directive
	}
	defer s.Close()
	return newestSweeps(c, s), directive
}

func newestSweeps(c *cobra.Command, s *store.Store) (found []string) {
	rows, err := s.ListSweeps(c.Context(), store.SweepFilter{Limit: proposedSweeps})
	unread(err)
	for _, r := range rows {
		begun := time.UnixMicro(r.Sweep.CreatedUs).UTC().Format("2006-01-02 15:04")
		found = append(found, cobra.CompletionWithDesc(r.Sweep.ID, fmt.Sprintf("%s, %s, %s", r.Sweep.Name, r.Sweep.State, begun)))
	}
	return found
}

func labelNames() (names []string) {
	for _, l := range trust.Labels() {
		names = append(names, cobra.CompletionWithDesc(l.Name, l.Meaning))
	}
	return names
}

func settingKeys() (names []string) {
	for _, s := range lab.SettingList() {
		names = append(names, cobra.CompletionWithDesc(s.Name+"=", s.Help))
	}
	return names
}

// unread notes for BASH_COMP_DEBUG_FILE why something could not be proposed.
func unread(err error) {
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
}
