package main

import (
	"context"
	"fmt"
	"strings"

	"specrun/deploy"
	"specrun/experiments/origin"
	"specrun/patches"
)

// changedFiles says which files of the engine that a process runs are not as
// released: the command does not tell, and a start by specrun makes them what its
// spec says.
func changedFiles(ctx context.Context, h *connection, c origin.Command) ([]string, error) {
	d, err := origin.NewDraft(c, origin.Options{})
	if err != nil || d.Python() == "" {
		return nil, err
	}
	library, err := patches.Library()
	if err != nil {
		return nil, err
	}
	report, err := deploy.Status(ctx, h.Host, deploy.Where{Python: d.Python(), Env: importEnv(c.Env), Cwd: c.Cwd, StateDir: h.entry.StateDir, Engine: d.Engine}, library)
	if ctx.Err() != nil {
		return nil, err
	}
	if err != nil { // the file can be written without it
		return []string{fmt.Sprintf("whether its engine is patched could not be read: %v", err)}, nil
	}
	return changedNotes(h.Name(), report.Files), nil
}

// importEnv is what of an environment decides what an interpreter imports.
func importEnv(env map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range env {
		if strings.HasPrefix(name, "PYTHON") || strings.HasPrefix(name, "LD_") || name == "PATH" {
			out[name] = value
		}
	}
	return out
}

func changedNotes(host string, files []deploy.FileStatus) (notes []string) {
	for _, f := range files {
		switch {
		case !f.InScope, f.Verdict == deploy.Pristine:
		case f.Verdict == deploy.Patched:
			notes = append(notes, fmt.Sprintf("its %s is patched: patches: [%s] keeps that, and without it a start puts the pristine file back", f.Path, strings.Join(f.Patches, ", ")))
		default:
			notes = append(notes, fmt.Sprintf("its %s is %s: see specrun status --host %s before a start", f.Path, f.Verdict, host))
		}
	}
	return notes
}
