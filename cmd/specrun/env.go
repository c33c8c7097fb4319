package main

import (
	"crypto/rand"
	"encoding/base32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"
)

// env is what commands take from the outside world; tests replace it.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	stdinTTY       bool
	stdoutTTY      bool
	stderrTTY      bool
	columns        func() int // of the terminal behind stderr, 0 = not known
	getenv         func(string) string
	environ        func() []string
	home           string
	now            func() time.Time
	newID          func() string
	executable     func() (string, error)
}

func systemEnv() *env {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // paths under it are then simply not found, and say so
	}
	return &env{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		stdinTTY:   term.IsTerminal(int(os.Stdin.Fd())),
		stdoutTTY:  term.IsTerminal(int(os.Stdout.Fd())),
		stderrTTY:  term.IsTerminal(int(os.Stderr.Fd())),
		columns:    terminalColumns,
		getenv:     os.Getenv,
		environ:    os.Environ,
		home:       home,
		now:        time.Now,
		newID:      randomID,
		executable: os.Executable,
	}
}

func terminalColumns() int {
	width, _, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// randomID returns ten characters of base32: 50 bits, short enough to type a
// prefix of it and long enough never to meet another one.
func randomID() string {
	var b [7]byte
	rand.Read(b[:]) // crypto/rand.Read never fails since Go 1.24
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:])[:10])
}

// configDir is $XDG_CONFIG_HOME/specrun or its default.
func (e *env) configDir() string { return e.xdg("XDG_CONFIG_HOME", ".config") }

// dataDir is $XDG_DATA_HOME/specrun or its default.
func (e *env) dataDir() string { return e.xdg("XDG_DATA_HOME", filepath.Join(".local", "share")) }

func (e *env) xdg(name, fallback string) string {
	if base := e.getenv(name); filepath.IsAbs(base) {
		return filepath.Join(base, "specrun")
	}
	return filepath.Join(e.home, fallback, "specrun")
}
