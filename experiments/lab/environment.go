package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed all:site
var site embed.FS

// The versions of the stand-ins: the releases whose shapes they have, marked as
// not them.
const (
	version      = "0.5.10+lab"
	torchVersion = "2.9.0+lab"
)

// PythonError says that no usable interpreter was found for the practice host.
type PythonError struct {
	Python string // as asked for or looked up
	Err    error
}

func (e *PythonError) Error() string { return fmt.Sprintf("python %q: %v", e.Python, e.Err) }
func (e *PythonError) Unwrap() error { return e.Err }
func (e *PythonError) Hint() string {
	return "the practice host needs Python 3.8 or newer with its standard library: install python3, or name one with --python"
}

// interpreter is what a Python says of itself.
type interpreter struct {
	Executable string `json:"executable"`
	Major      int    `json:"major"`
	Minor      int    `json:"minor"`
}

// environment is a virtual environment with the stand-in in it as a released
// wheel would be.
type environment struct {
	dir string
	py  interpreter
}

// python is the interpreter to start servers with.
func (e environment) python() string { return filepath.Join(e.dir, "bin", "python3") }

func (e environment) sitePackages() string {
	return filepath.Join(e.dir, "lib", fmt.Sprintf("python%d.%d", e.py.Major, e.py.Minor), "site-packages")
}

// stamp names what an installed environment was made from.
func (e environment) stamp() (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%+v %+v\n", e.py, packages())
	err := walkSite(func(name string, data []byte) error {
		fmt.Fprintf(h, "%s %d\n", name, len(data))
		h.Write(data)
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// install makes the environment in dir, or leaves it as it is when it was made
// from the same content: it may carry patches. fresh says that it was made.
func install(ctx context.Context, dir, python string) (e environment, fresh bool, err error) {
	e.dir = dir
	if e.py, err = ask(ctx, python); err != nil {
		return e, false, err
	}
	stamp, err := e.stamp()
	if err != nil {
		return e, false, err
	}
	mark := filepath.Join(dir, ".specrun-lab")
	if have, err := os.ReadFile(mark); err == nil && string(have) == stamp {
		return e, false, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return e, false, fmt.Errorf("practice environment: %w", err)
	}
	if err := e.create(); err != nil {
		return e, false, fmt.Errorf("practice environment: %w", err)
	}
	if err := e.check(ctx); err != nil {
		return e, false, err
	}
	return e, true, os.WriteFile(mark, []byte(stamp), 0o644)
}

// create lays a virtual environment out (PEP 405: a link to an interpreter
// beside a pyvenv.cfg), which needs no venv module, and installs the package.
func (e environment) create() error {
	bin := filepath.Join(e.dir, "bin")
	for _, d := range []string{bin, e.sitePackages()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"python3", "python"} {
		if err := os.Symlink(e.py.Executable, filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	cfg := fmt.Sprintf("home = %s\ninclude-system-site-packages = false\nversion = %d.%d\n",
		filepath.Dir(e.py.Executable), e.py.Major, e.py.Minor)
	if err := os.WriteFile(filepath.Join(e.dir, "pyvenv.cfg"), []byte(cfg), 0o644); err != nil {
		return err
	}
	if err := writePackages(e.sitePackages()); err != nil {
		return err
	}
	return e.writeSecondCopy()
}

// packages are what an installer would have put into the environment, with the
// top-level names that are theirs.
func packages() []installed {
	return []installed{
		{"sglang", version, "Stand-in of the specrun practice host, on an emulated device", []string{"torch"}, []string{"sglang", "specrun_lab"}},
		{"torch", torchVersion, "Stand-in of the specrun practice host: the calls that a patch makes", nil, []string{"torch"}},
	}
}

type installed struct {
	name, version, summary string
	requires, top          []string
}

// writePackages writes the embedded files and the dist-info folders that an
// installer leaves, with the hash of each file, below dir.
func writePackages(dir string) error {
	files := map[string][]byte{}
	if err := walkSite(func(name string, data []byte) error {
		files[name] = data
		return nil
	}); err != nil {
		return err
	}
	for _, p := range packages() {
		own := map[string][]byte{}
		for name, data := range files {
			if top, _, _ := strings.Cut(name, "/"); slices.Contains(p.top, top) {
				own[name] = data
			}
		}
		if err := p.write(dir, own); err != nil {
			return err
		}
	}
	return nil
}

func (p installed) write(dir string, files map[string][]byte) error {
	info := p.name + "-" + p.version + ".dist-info"
	meta := "Metadata-Version: 2.1\nName: " + p.name + "\nVersion: " + p.version + "\nSummary: " + p.summary + "\nRequires-Python: >=3.8\n"
	for _, other := range p.requires {
		meta += "Requires-Dist: " + other + "\n"
	}
	files[info+"/METADATA"] = []byte(meta)
	files[info+"/WHEEL"] = []byte("Wheel-Version: 1.0\nGenerator: specrun\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
	files[info+"/INSTALLER"] = []byte("specrun\n")
	files[info+"/top_level.txt"] = []byte(strings.Join(p.top, "\n") + "\n")
	var record bytes.Buffer
	w := csv.NewWriter(&record)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256(files[name])
		hash := "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:])
		if err := w.Write([]string{name, hash, fmt.Sprint(len(files[name]))}); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, filepath.FromSlash(name)), files[name]); err != nil {
			return err
		}
	}
	if err := w.Write([]string{info + "/RECORD", "", ""}); err != nil {
		return err
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, filepath.FromSlash(info), "RECORD"), record.Bytes(), 0o644)
}

// writeSecondCopy writes the engine once more, to where no import looks: what
// a server with StaleCode runs.
func (e environment) writeSecondCopy() error {
	return walkSite(func(name string, data []byte) error {
		if !strings.HasPrefix(name, "sglang/") {
			return nil
		}
		return writeFile(filepath.Join(e.dir, "second", filepath.FromSlash(name)), data)
	})
}

func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// check proves that the environment's interpreter finds the package in it, and
// compiles it on the way, so that the first server starts as fast as the next.
func (e environment) check(ctx context.Context) error {
	const script = `import compileall, importlib.util, os, sys
print(os.path.realpath(importlib.util.find_spec("sglang").origin))
compileall.compile_dir(sys.argv[1], quiet=2, legacy=False)`
	cmd := exec.CommandContext(ctx, e.python(), "-c", script, e.sitePackages())
	cmd.Env = append(os.Environ(), "PYTHONPATH=", "PYTHONHOME=")
	cmd.Dir = e.dir
	out, err := cmd.Output()
	if err != nil {
		return &PythonError{e.python(), withStderr(err)}
	}
	want, err := filepath.EvalSymlinks(filepath.Join(e.sitePackages(), "sglang", "__init__.py"))
	if err != nil {
		return &PythonError{e.python(), err}
	}
	if got := strings.TrimSpace(string(out)); got != want {
		return &PythonError{e.python(), fmt.Errorf("finds sglang at %s, not at %s", got, want)}
	}
	return nil
}

// ask finds the interpreter and what it is; "" looks for python3.
func ask(ctx context.Context, python string) (interpreter, error) {
	var i interpreter
	if python == "" {
		python = "python3"
	}
	const script = `import json, os, sys
exe = getattr(sys, "_base_executable", None) or sys.executable
print(json.dumps({"executable": os.path.realpath(exe), "major": sys.version_info[0], "minor": sys.version_info[1]}))`
	cmd := exec.CommandContext(ctx, python, "-I", "-c", script)
	out, err := cmd.Output()
	if err != nil {
		return i, &PythonError{python, withStderr(err)}
	}
	if err := json.Unmarshal(out, &i); err != nil {
		return i, &PythonError{python, fmt.Errorf("unexpected answer %q: %w", out, err)}
	}
	if i.Major != 3 || i.Minor < 8 {
		return i, &PythonError{python, fmt.Errorf("is version %d.%d", i.Major, i.Minor)}
	}
	return i, nil
}

// walkSite calls f for each embedded file with its slash path below site-packages.
func walkSite(f func(name string, data []byte) error) error {
	return fs.WalkDir(site, "site", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "__pycache__" {
				return fs.SkipDir // of a developer's own run of the sources
			}
			return nil
		}
		data, err := site.ReadFile(path)
		if err != nil {
			return err
		}
		return f(strings.TrimPrefix(path, "site/"), data)
	})
}

func withStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return err
}
