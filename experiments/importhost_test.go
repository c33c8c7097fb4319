//go:build integration || soak

package experiments

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"specrun/internal/tier"
	"specrun/remote"
)

// importHosts are this machine under each shell, with and without Python.
func importHosts(t *testing.T) map[string]*remote.Host {
	t.Helper()
	hosts := map[string]*remote.Host{}
	bare := t.TempDir()
	for _, tool := range []string{"sh", "cat", "head", "wc", "od", "tr", "gzip", "awk", "sha256sum", "readlink", "sleep", "ps", "printf"} {
		if path, err := exec.LookPath(tool); err == nil {
			if err := os.Symlink(path, filepath.Join(bare, tool)); err != nil {
				t.Fatal(err)
			}
		}
	}
	plain := t.TempDir() // as bare, but without awk
	if err := os.CopyFS(plain, os.DirFS(bare)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(plain, "awk")); err != nil {
		t.Fatal(err)
	}
	for _, shell := range [][]string{{"dash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		path, err := exec.LookPath(shell[0])
		if err != nil {
			t.Logf("no %s here", shell[0])
			continue
		}
		for tools, dir := range map[string]string{"python": os.Getenv("PATH"), "awk": bare, "gzip": plain} {
			if tools == "gzip" && shell[0] != "bash" || tools == "awk" && shell[0] == "bash" {
				continue // each shell and each tool is enough
			}
			if !tier.Full && (tools == "python") != (shell[0] == "dash") {
				continue // one of each shell and of each tool
			}
			name := shell[0] + " with " + tools
			h := remote.Local(remote.LocalConfig{Name: name, Shell: append([]string{path}, shell[1:]...),
				Env: []string{"PATH=" + dir, "HOME=" + t.TempDir()}, Dir: "/"})
			t.Cleanup(func() { h.Close() })
			hosts[name] = h
		}
	}
	if len(hosts) == 0 {
		t.Fatal("none of dash, bash, busybox is installed")
	}
	return hosts
}

// readHost imports from a host and gives what came, with its text.
func readHost(t *testing.T, h *remote.Host, req ImportRequest) (files []ImportFile, texts []string) {
	t.Helper()
	filter, err := ImportHost(context.Background(), h, req, func(f ImportFile) error {
		files = append(files, f)
		text := ""
		if f.Open != nil {
			r, err := f.Open()
			if err != nil {
				return err
			}
			b, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			text = string(b)
			if err := r.Close(); err != nil {
				return err
			}
		}
		texts = append(texts, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// busybox brings tools of its own, which its shell prefers to none.
	if _, with, _ := strings.Cut(h.Name(), " with "); !strings.HasPrefix(filter, with) && !strings.Contains(h.Name(), "busybox") {
		t.Errorf("%s: filtered by %s", h.Name(), filter)
	}
	return files, texts
}

// serverLog is a log of n lines, every 200th of them a decode line.
func serverLog(n int, every int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	fmt.Fprintf(&b, "[2026-01-01 09:59:00] server_args=ServerArgs(model_path='/models/it\\'s', tp_size=8, speculative_algorithm='EAGLE3', speculative_num_steps=3, api_key='k', lora_paths=['a', 'b'], stream=True, dtype=None)\n")
	fmt.Fprintf(&b, "[2026-01-01 09:59:59] The server is fired up and ready to roll!\n")
	for i := range n {
		at := fmt.Sprintf("2026-01-01 %02d:%02d:%02d", 10+i/36000%12, i/600%60, i/10%60)
		if i%every == 0 {
			fmt.Fprintf(&b, "[%s TP0] Decode batch, #running-req: %d, #token: %d, token usage: %.2f, accept len: %.2f, accept rate: %.2f, cuda graph: True, gen throughput (token/s): %.2f, #queue-req: 0, \n",
				at, 1+r.IntN(4), 100+r.IntN(4000), r.Float64()/10, 1.8+r.Float64()/5, 0.5+r.Float64()/5, 85+10*r.Float64())
			continue
		}
		fmt.Fprintf(&b, "INFO:     127.0.0.1:%d - \"POST /v1/chat/completions HTTP/1.1\" 200 OK request=%016x ms=%.3f\n", 30000+r.IntN(30000), r.Uint64(), 1000*r.Float64())
	}
	return b.Bytes()
}

func putFile(t *testing.T, path string, b []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func zipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestImportHost_ReadsAsTheFileHere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := serverLog(3000, 200)
	names := []string{"server.log", "it's \"quoted\" $HOME.log", "two\nlines.log", "-n", "st*r.log", "small.log", "no end.log", "old.log.gz", "bench.json", "hole.log"}
	contents := map[string][]byte{}
	short := log[:bytes.LastIndexByte(log[:60000], '\n')+1]
	for i, n := range names {
		contents[n] = append([]byte("# "+n[:1]+"\n"), log...)
		if i > 0 && !tier.Full { // one name with enough to filter
			contents[n] = append([]byte("# "+n[:1]+"\n"), short...)
		}
	}
	contents["small.log"] = log[:3000]
	contents["no end.log"] = log[:len(log)-2000]
	contents["hole.log"] = append(slices.Clone(log), append(make([]byte, 70000), log[400:]...)...)
	contents["bench.json"] = []byte(`{"backend":"sglang","completed":3,"output_throughput":71.5}`)
	for n, b := range contents {
		if n == "old.log.gz" {
			b = zipped(t, b)
		}
		putFile(t, filepath.Join(dir, n), b)
	}
	putFile(t, filepath.Join(dir, "sub", "x.log"), log)
	here := map[string]ImportFile{}
	for _, n := range names {
		here[n] = ImportLocal(filepath.Join(dir, n), nil)
		if err := here[n].Err; err != nil {
			t.Fatal(err)
		}
	}
	for name, h := range importHosts(t) {
		t.Run(name, func(t *testing.T) {
			files, texts := readHost(t, h, ImportRequest{Patterns: []string{dir + "/*"}})
			var got []string
			for i, f := range files {
				base := filepath.Base(f.Path)
				got = append(got, base)
				if f.Err != nil {
					t.Errorf("%s: %v", f.Path, f.Err)
					continue
				}
				want := here[base]
				if f.Content != want.Content || f.Content.SHA256 != fmt.Sprintf("%x", sha256.Sum256(contents[base])) {
					t.Errorf("%s: content %v, here %v", f.Path, f.Content, want.Content)
				}
				if d := cmp.Diff(fmt.Sprint(want.Runs), fmt.Sprint(f.Runs)); d != "" {
					t.Errorf("%s: %s", f.Path, d)
				}
				if len(f.Runs) == 0 {
					t.Errorf("%s: no run", f.Path)
				}
				if !f.Rows && texts[i] != string(contents[base]) {
					t.Errorf("%s: came as other text", f.Path)
				}
			}
			slices.Sort(got)
			if d := cmp.Diff(slices.Sorted(slices.Values(names)), got); d != "" {
				t.Errorf("files: %s", d)
			}
		})
	}
}

func TestImportHost_WhatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "packed.xz"), []byte("\xfd7zXZ\x00 and so on"))
	putFile(t, filepath.Join(dir, "good.log"), serverLog(50, 5))
	putFile(t, filepath.Join(dir, "folder", "x.log"), nil)
	if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "gone.log")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfifo", filepath.Join(dir, "pipe")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	patterns := []string{dir + "/gone.log", dir + "/packed.xz", dir + "/folder", dir + "/pipe", dir + "/none*.log", "~/none", dir + "/good.log"}
	want := []string{"No such file or directory", "packed", "is a folder: name its files", "is no regular file", "no file matches", "no file matches", ""}
	for name, h := range importHosts(t) {
		t.Run(name, func(t *testing.T) {
			files, _ := readHost(t, h, ImportRequest{Patterns: patterns})
			if len(files) != len(want) {
				t.Fatalf("%d files", len(files))
			}
			for i, f := range files {
				if want[i] == "" {
					if f.Err != nil || len(f.Runs) != 1 {
						t.Errorf("%s: %d runs, error %v", patterns[i], len(f.Runs), f.Err)
					}
					continue
				}
				if f.Err == nil || !strings.Contains(f.Err.Error(), want[i]) || !strings.Contains(f.Err.Error(), h.Name()) {
					t.Errorf("%s: error %v, want %q", patterns[i], f.Err, want[i])
				}
			}
			var none *NoMatchError
			if !errors.As(files[4].Err, &none) || none.Pattern != patterns[4] {
				t.Errorf("error %v", files[4].Err)
			}
		})
	}
}

func TestImportHost_KnownContentDoesNotTravelAndGrowthIsSeen(t *testing.T) {
	t.Parallel()
	log := serverLog(4000, 200)
	short := log[:400000]
	file := putFile(t, filepath.Join(t.TempDir(), "server.log"), log)
	content := func(b []byte) Content { return Content{int64(len(b)), fmt.Sprintf("%x", sha256.Sum256(b))} }
	other := Content{300000, strings.Repeat("0", 64)}
	h := importHosts(t)["dash with python"]
	for name, read := range map[string]func(known ...Content) ImportFile{
		"host": func(known ...Content) ImportFile {
			files, _ := readHost(t, h, ImportRequest{Patterns: []string{file}, Known: known})
			return files[0]
		},
		"here": func(known ...Content) ImportFile { return ImportLocal(file, known) },
	} {
		if f := read(other, content(log)); !f.Known || f.Err != nil || f.Transferred > 400 {
			t.Errorf("%s: known %v, %d bytes travelled, error %v", name, f.Known, f.Transferred, f.Err)
		}
		f := read(other, content(short), content(short[:10]))
		if d := cmp.Diff([]string{content(short[:10]).SHA256, content(short).SHA256}, f.Extends); d != "" || f.Known || f.Err != nil {
			t.Errorf("%s: extends %s, known %v, error %v", name, d, f.Known, f.Err)
		}
	}
}

// However many logs were imported before, and whatever tools the host has, a log
// that has grown is seen to be one of them.
func TestImportHost_GrowthIsSeenAmongManyKnown(t *testing.T) {
	t.Parallel()
	small, log := serverLog(900, 200), serverLog(4000, 200)
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "a.log"), small)
	putFile(t, filepath.Join(dir, "b.log"), log)
	content := func(b []byte) Content { return Content{int64(len(b)), fmt.Sprintf("%x", sha256.Sum256(b))} }
	var known []Content
	for i := range 4000 { // of these an argument of a program does not hold all
		known = append(known, Content{int64(i * 20), fmt.Sprintf("%064x", i)})
	}
	known = append(known, content(small[:700]), content(log[:400000]))
	for name, h := range importHosts(t) {
		files, _ := readHost(t, h, ImportRequest{Patterns: []string{dir + "/*.log"}, Known: known})
		if len(files) != 2 || files[0].Err != nil || files[1].Err != nil {
			t.Fatalf("%s: %+v", name, files)
		}
		if d := cmp.Diff([]string{content(small[:700]).SHA256}, files[0].Extends); d != "" {
			t.Errorf("%s, a file that travelled whole: %s", name, d)
		}
		// Both begin alike.
		if d := cmp.Diff([]string{content(small[:700]).SHA256, content(log[:400000]).SHA256}, files[1].Extends); d != "" && !files[1].Rows || d != "" && strings.HasSuffix(name, "python") {
			t.Errorf("%s: %s", name, d) // awk has no hash of a part
		}
	}
}

// A packed log that was cut off is not taken for a whole one by any tool.
func TestImportHost_ADamagedGzipFileIsAnError(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(serverLog(3000, 20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "a.log.gz"), packed.Bytes()[:packed.Len()-3000])
	putFile(t, filepath.Join(dir, "b.log.gz"), packed.Bytes())
	for name, h := range importHosts(t) {
		files, _ := readHost(t, h, ImportRequest{Patterns: []string{dir + "/*.gz"}})
		if len(files) != 2 {
			t.Fatalf("%s: %d files", name, len(files))
		}
		if f := files[0]; f.Err == nil || len(f.Runs) > 0 || !strings.Contains(f.Err.Error(), "a.log.gz") || strings.Contains(f.Err.Error(), "failed)") {
			t.Errorf("%s: error %v, %d runs", name, f.Err, len(f.Runs))
		} else {
			t.Logf("%s: %v", name, f.Err)
		}
		if f := files[1]; f.Err != nil || len(f.Runs) != 1 {
			t.Errorf("%s, the whole one: error %v, %d runs", name, f.Err, len(f.Runs))
		}
	}
}

func TestImportHost_FailureOfTheReceiverEndsIt(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	file := putFile(t, filepath.Join(t.TempDir(), "server.log"), serverLog(4000, 1))
	full := errors.New("disk full")
	_, err := ImportHost(context.Background(), importHosts(t)["dash with python"], ImportRequest{Patterns: []string{file, "/nope"}},
		func(ImportFile) error { return full })
	if !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "specrun-import-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

// Without Python more may travel, but nothing that counts is lost.
func TestImportHost_AwkReadsTheSamplesAlike(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	all := samples(t)
	names := slices.Sorted(maps.Keys(all))
	idle := bytes.Repeat([]byte("INFO:     127.0.0.1:4000 - \"GET /health HTTP/1.1\" 200 OK, and nothing that tells anything\n"), 3200)
	for i, n := range names {
		if i%tier.Size(12, 3) == 0 {
			putFile(t, filepath.Join(dir, n), append(slices.Clone(idle), padding(all[n])...))
		}
	}
	files, _ := readHost(t, importHosts(t)["busybox with awk"], ImportRequest{Patterns: []string{dir + "/*.log"}})
	rows := 0
	for _, f := range files {
		if f.Err != nil {
			t.Errorf("%s: %v", f.Path, f.Err)
			continue
		}
		if f.Rows {
			rows++
		}
		want := ImportLocal(f.Path, nil)
		if d := cmp.Diff(fmt.Sprint(want.Runs), fmt.Sprint(f.Runs)); d != "" || f.Content != want.Content {
			t.Errorf("%s: content %v, here %v; %s", f.Path, f.Content, want.Content, d)
		}
	}
	if rows < len(names)/tier.Size(20, 5) {
		t.Errorf("only %d files were filtered", rows)
	}
}
