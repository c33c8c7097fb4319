package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"specrun/patches"
)

// lookupPatch finds a patch by name: in ./patches and the config folder's
// patches, then among the built-in ones; a name with a slash is a folder.
func (a *app) lookupPatch(name string) (*patches.Patch, error) {
	return patches.Lookup(name, a.patchFolders()...)
}

func (a *app) patchFolders() []string {
	return []string{"patches.d", filepath.Join(a.configDir(), "patches")}
}

// listedPatch is a patch and where it was found.
type listedPatch struct {
	*patches.Patch
	from string
}

// listPatches gives each patch that a name finds, by name. The folder of one
// that cannot be read is an error of its own: the others are listed.
func (a *app) listPatches() ([]listedPatch, error) {
	var failed []error
	found := map[string]listedPatch{}
	for _, dir := range a.patchFolders() {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
		for _, e := range entries {
			if _, known := found[e.Name()]; known || !e.IsDir() {
				continue
			}
			p, err := a.lookupPatch(e.Name())
			if err != nil {
				failed = append(failed, err)
				continue
			}
			found[e.Name()] = listedPatch{p, a.homely(dir)}
		}
	}
	library, err := patches.Library()
	if err != nil {
		return nil, err
	}
	for _, p := range library {
		if _, known := found[p.Name]; !known {
			found[p.Name] = listedPatch{p, "built-in"}
		}
	}
	var all []listedPatch
	for _, name := range sortedKeys(found) {
		all = append(all, found[name])
	}
	return all, errors.Join(failed...)
}

func (a *app) lookupPatches(names []string) ([]*patches.Patch, error) {
	var found []*patches.Patch
	for _, n := range names {
		p, err := a.lookupPatch(n)
		if err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	return found, nil
}

func newPatchCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "patch",
		Short: "List and show patches",
		Long: `List and show patches: the built-in ones, those in ./patches.d and those in the
config folder. A name with a slash is the folder of a patch. Nothing is changed.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "list",
		Short: "List the patches: built-in, of ./patches.d and of the config folder",
		Long: `List the built-in patches, and those of ./patches.d and of the config folder, which
come before built-in ones of the same name.` + exitStatus(exitOK, exitFailed, exitUsage),
		Example: "  specrun patch list",
		Args:    noArgs,
		RunE:    func(*cobra.Command, []string) error { return a.runPatchList() },
	}, &cobra.Command{
		Use:     "show PATCH",
		Short:   "Show what a patch changes, needs and prints",
		Long:    "Show what a patch changes, needs and prints. Nothing is changed." + exitStatus(exitOK, exitFailed, exitUsage),
		Example: "  specrun patch show profiling-v4",
		Args:    needs("a PATCH", 1, 1, "specrun patch list"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.runPatchShow(args[0]) },
	})
	return c
}

// patchView is a patch as JSON lines show it.
type patchView struct {
	Name    string            `json:"name"`
	Version string            `json:"version"`
	Summary string            `json:"summary"`
	Probe   patches.Probe     `json:"probe"`
	Engine  string            `json:"engine,omitempty"`
	LabOnly bool              `json:"lab_only,omitempty"`
	SHA256  string            `json:"sha256"`
	Env     map[string]string `json:"env,omitempty"`
	Targets []string          `json:"targets"`
}

func viewPatch(p *patches.Patch) patchView {
	v := patchView{Name: p.Name, Version: p.Version, Summary: p.Summary, Probe: p.Probe,
		Engine: p.Engine, LabOnly: p.LabOnly, SHA256: p.SHA256(), Env: p.Env}
	for _, t := range p.Targets {
		v.Targets = append(v.Targets, t.Name())
	}
	return v
}

func (a *app) runPatchList() error {
	all, err := a.listPatches()
	var rows [][]string
	for _, p := range all {
		if a.flags.json {
			a.line("patch", viewPatch(p.Patch))
			continue
		}
		summary := p.Summary
		if p.LabOnly {
			summary += " (practice host only)"
		}
		rows = append(rows, []string{p.Name, p.Version, string(p.Probe), p.from, summary})
	}
	a.table([]string{"PATCH", "VERSION", "PROBE", "FROM", "SUMMARY"}, rows)
	return err
}

func (a *app) runPatchShow(name string) error {
	p, err := a.lookupPatch(name)
	if err != nil {
		return err
	}
	if a.flags.json {
		a.line("patch", viewPatch(p))
		return nil
	}
	a.printf("%s %s  %s\n", p.Name, p.Version, p.Summary)
	rows := [][]string{{"content", "sha256:" + p.SHA256()}, {"probe", string(p.Probe)}, {"engine", p.Engine}}
	for _, name := range sortedKeys(p.Env) {
		rows = append(rows, []string{"sets", name + "=" + p.Env[name]})
	}
	if len(p.Emits.Rows) > 0 {
		rows = append(rows, []string{"prints", strings.Join(p.Emits.Rows, ", ")})
	}
	if p.Emits.Acceptance != patches.AcceptanceNone {
		rows = append(rows, []string{"accept length", "counted " + string(p.Emits.Acceptance)})
	}
	if p.Emits.Phases != "" {
		rows = append(rows, []string{"phases", p.Emits.Phases})
	}
	for _, t := range p.Targets {
		rows = append(rows, []string{"target", t.Name() + " (" + string(t.Kind) + ")"})
		for _, r := range t.Requires {
			what := "function " + r.Function
			if r.Class != "" {
				what = "class " + r.Class
			}
			if len(r.Methods) > 0 {
				what += " with " + strings.Join(r.Methods, ", ")
			}
			if r.Optional {
				what += " (when it is there)"
			}
			rows = append(rows, []string{"", "needs " + what})
		}
	}
	a.table(nil, rows)
	return nil
}
