//go:build engines && integration

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var generatedTokens = regexp.MustCompile(`(?m)^vllm:generation_tokens_total\{[^}]*\} ([0-9.e+]+)`)

// generated reads the server's counter; 0 when it does not answer.
func generated(url string) float64 {
	if url == "" {
		return 0
	}
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(url + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		return 0
	}
	m := generatedTokens.FindSubmatch(text.Bytes())
	if m == nil {
		return 0
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		return 0
	}
	return n
}

// left lists processes that have files of the environment mapped, and segments of
// shared memory.
func left(t *testing.T, python string) []string {
	t.Helper()
	var out []string
	env := filepath.Dir(filepath.Dir(python))
	procs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, p := range procs {
		maps, err := os.ReadFile(filepath.Join(p, "maps"))
		if err == nil && bytes.Contains(maps, []byte(env)) {
			title, _ := os.ReadFile(filepath.Join(p, "cmdline")) // it may just have ended
			out = append(out, fmt.Sprintf("process %s: %q", filepath.Base(p), title))
		}
	}
	shm, err := os.ReadDir("/dev/shm")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, f := range shm {
		if strings.HasPrefix(f.Name(), "psm_") || strings.HasPrefix(f.Name(), "sem.mp-") {
			out = append(out, "/dev/shm/"+f.Name())
		}
	}
	return out
}

// children are the processes of the session that a process leads, without itself.
func children(t *testing.T, leader int) []int {
	t.Helper()
	var out []int
	procs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, p := range procs {
		f := statFields(filepath.Join(p, "stat"))
		pid, _ := strconv.Atoi(filepath.Base(p))
		if len(f) > 3 && f[3] == strconv.Itoa(leader) && pid != leader {
			out = append(out, pid)
		}
	}
	return out
}

func alive(pid int) bool {
	f := statFields(fmt.Sprintf("/proc/%d/stat", pid))
	return len(f) > 0 && f[0] != "Z" && f[0] != "X"
}

// statFields are those behind the command's name, from the state on; none when the
// process is gone.
func statFields(path string) []string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
}
