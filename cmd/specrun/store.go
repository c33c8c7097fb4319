package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"specrun/experiments/store"
)

// storePath says where results go: --store, SPECRUN_STORE, beside the spec, or
// the data folder. spec is the path of a spec file, "" when there is none.
func (a *app) storePath(spec string) (string, error) {
	path := a.flags.store
	if path == "" {
		path = a.getenv("SPECRUN_STORE")
	}
	switch {
	case strings.HasPrefix(path, "postgres://") || strings.HasPrefix(path, "postgresql://"):
		return "", usagef("give --store the path of a file", "store %s: this version keeps results in SQLite files only", redactDSN(path))
	case path != "":
		return path, nil
	case spec != "":
		return filepath.Join(filepath.Dir(spec), ".specrun", "results.db"), nil
	}
	if _, err := os.Stat(specFile); err == nil {
		return filepath.Join(".specrun", "results.db"), nil
	}
	if _, err := os.Stat(filepath.Join(".specrun", "results.db")); err == nil {
		return filepath.Join(".specrun", "results.db"), nil
	}
	return filepath.Join(a.dataDir(), "results.db"), nil
}

func (a *app) openStore(ctx context.Context, spec string) (*store.Store, error) {
	path, err := a.storePath(spec)
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, path, store.WithClock(a.now))
}

// readStore opens the store for a command that only reads: it creates nothing.
func (a *app) readStore(ctx context.Context) (*store.Store, error) {
	path, err := a.storePath("")
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, path, store.WithClock(a.now), store.MustExist())
	if errors.Is(err, fs.ErrNotExist) {
		hint := "run an experiment first, or name the store with --store"
		if other := filepath.Join(a.dataDir(), "results.db"); other != path && isFile(other) {
			hint = "what was measured in folders without a specrun.yaml is in --store " + a.homely(other)
		}
		return nil, &codedError{code: exitFailed, msg: "there are no results yet: " + path + " does not exist", hint: hint}
	}
	return s, err
}

// existingStore opens the store that a spec's results go to when there is one;
// nil when nothing was stored there yet. It creates nothing.
func (a *app) existingStore(ctx context.Context, spec string) (*store.Store, error) {
	path, err := a.storePath(spec)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, path, store.WithClock(a.now), store.MustExist())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return s, err
}

// homely writes a path of this machine for people: ~ for the home folder.
func (a *app) homely(path string) string {
	if rest, ok := strings.CutPrefix(path, a.home+string(filepath.Separator)); ok && a.home != "" {
		return filepath.Join("~", rest)
	}
	return path
}

// redactDSN hides the password of a database address.
func redactDSN(dsn string) string {
	head, rest, ok := strings.Cut(dsn, "://")
	if !ok {
		return dsn
	}
	if _, tail, ok := strings.Cut(rest, "@"); ok {
		return head + "://...@" + tail
	}
	return dsn
}
