package bench

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"debug/elf"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"specrun/remote"
)

// Host is what this package needs of a host; *remote.Host is one.
type Host interface {
	Name() string
	// Run runs a script to its end; the error is nil only when it exited 0.
	Run(ctx context.Context, s remote.Script) (remote.Result, error)
	// PutVerified writes a new file and compares the host's SHA-256 of it.
	PutVerified(ctx context.Context, f remote.File) (sha string, err error)
	// Get copies a file from the host, verified by SHA-256.
	Get(ctx context.Context, path string, w io.Writer) (n int64, sha256 string, err error)
}

var (
	//go:embed scripts/lib.sh
	libText string
	//go:embed scripts/worker.sh
	workerText string
	//go:embed scripts/install.sh
	installText string
	//go:embed scripts/start.sh
	startText string
	//go:embed scripts/poll.sh
	pollText string
	//go:embed scripts/stop.sh
	stopText string
)

func script(name, text string, vars ...remote.Var) remote.Script {
	return remote.Script{Name: "bench-" + name, Text: remote.HostLib() + libText + text, Vars: vars}
}

// NoWorkerError says that there is no build of specrun for a host.
type NoWorkerError struct {
	Host, OS, Arch string
	Tried          []string // files looked at, with what was wrong
}

func (e *NoWorkerError) Error() string {
	return fmt.Sprintf("%s: no benchmark worker for %s/%s (looked at: %s)", e.Host, e.OS, e.Arch, strings.Join(e.Tried, "; "))
}

// Hint says what to do.
func (e *NoWorkerError) Hint() string {
	if e.OS != "linux" {
		return "the worker runs on linux hosts only; use bench.where: controller"
	}
	return fmt.Sprintf(`"make build" makes dist/specrun-%s-%s; keep it beside specrun, or name it with --worker-binary; or use bench.where: controller`, e.OS, e.Arch)
}

// Finder names the specrun binary for a system, as GOOS and GOARCH. It returns
// a *NoWorkerError when there is none.
type Finder = func(goos, goarch string) (path string, err error)

// FindWorker looks for workers: override (--worker-binary) when given, else
// specrun-GOOS-GOARCH beside self (the running binary), else self when it is of
// that system. A linux binary of another architecture is refused.
func FindWorker(self, override string) Finder {
	return func(goos, goarch string) (string, error) {
		missing := &NoWorkerError{OS: goos, Arch: goarch}
		candidates := []string{filepath.Join(filepath.Dir(self), "specrun-"+goos+"-"+goarch)}
		if runtime.GOOS == goos && runtime.GOARCH == goarch {
			candidates = append(candidates, self)
		}
		if override != "" {
			candidates = []string{override}
		}
		for _, path := range candidates {
			err := checkBinary(path, goos, goarch)
			if err == nil {
				return path, nil
			}
			missing.Tried = append(missing.Tried, err.Error())
		}
		return "", missing
	}
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

func checkBinary(path, goos, goarch string) error {
	if goos != "linux" {
		return fmt.Errorf("%s: only linux workers are known", path)
	}
	f, err := elf.Open(path)
	var format *elf.FormatError
	switch {
	case errors.As(err, &format):
		return fmt.Errorf("%s: no linux program", path)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: no such file", path)
	case err != nil:
		return err
	}
	defer f.Close()
	if f.Machine != machines[goarch] {
		return fmt.Errorf("%s: built for %s", path, f.Machine)
	}
	return nil
}

// EnsureWorker makes sure that the host has a worker of the build that find
// names for its system, and returns its path there. A worker lies under the
// hash of its bytes in stateDir/bin, so it is pushed once; a path appears only
// when the file behind it is whole. A push removes builds that were not used for
// thirty days. stateDir "" is the host's default.
func EnsureWorker(ctx context.Context, h Host, stateDir string, find Finder) (string, error) {
	res, err := h.Run(ctx, script("worker", workerText, remote.Var{Name: "STATE", Value: stateDir}))
	if err != nil {
		return "", fmt.Errorf("benchmark worker: %w", err)
	}
	a := parseAnswer(res.Stdout)
	goos, goarch := system(a.first("system"))
	path, err := find(goos, goarch)
	if err != nil {
		var missing *NoWorkerError
		if errors.As(err, &missing) {
			missing.Host = h.Name()
		}
		return "", err
	}
	sum, size, err := hashFile(path)
	if err != nil {
		return "", fmt.Errorf("benchmark worker: %w", err)
	}
	bin := a.first("bin")
	if !strings.HasPrefix(bin, "/") {
		return "", fmt.Errorf("%s: benchmark worker: unexpected answer %q", h.Name(), res.Stdout)
	}
	for _, has := range a["has"] {
		if has == sum+" "+strconv.FormatInt(size, 10) {
			return bin + "/" + sum, nil
		}
	}
	return push(ctx, h, path, bin, sum, size)
}

func push(ctx context.Context, h Host, local, bin, sum string, size int64) (string, error) {
	temp := fmt.Sprintf("%s/.%s.%s.new", bin, sum[:12], rand.Text())
	got, err := h.PutVerified(ctx, remote.File{Path: temp, Mode: 0o700, Size: size, Open: func() (io.ReadCloser, error) { return os.Open(local) }})
	if err != nil {
		return "", fmt.Errorf("push the benchmark worker: %w", err)
	}
	if got != sum {
		return "", fmt.Errorf("%s: push the benchmark worker: %s changed meanwhile", h.Name(), local)
	}
	to := bin + "/" + sum
	if _, err := h.Run(ctx, script("install", installText, remote.Var{Name: "FROM", Value: temp}, remote.Var{Name: "TO", Value: to})); err != nil {
		return "", fmt.Errorf("install the benchmark worker: %w", err)
	}
	return to, nil
}

// system turns "Linux x86_64" into GOOS and GOARCH.
func system(uname string) (goos, goarch string) {
	name, machine, _ := strings.Cut(uname, " ")
	switch machine {
	case "x86_64", "amd64":
		machine = "amd64"
	case "aarch64", "arm64":
		machine = "arm64"
	}
	return strings.ToLower(name), machine
}

func hashFile(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

// reply is a script's output: values by the first word of their line.
type reply map[string][]string

func parseAnswer(out []byte) reply {
	a := reply{}
	for _, l := range remote.Lines(out) {
		a[l.Key] = append(a[l.Key], l.Value)
	}
	return a
}

func (a reply) first(key string) string {
	if len(a[key]) == 0 {
		return ""
	}
	return a[key][0]
}
