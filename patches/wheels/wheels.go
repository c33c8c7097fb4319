package wheels

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed wheels.txt
var pinned string

// Pin is one line of wheels.txt.
type Pin struct{ Version, SHA256, File string }

// Pins lists the pinned releases, oldest first.
func Pins() []Pin {
	var pins []Pin
	for line := range strings.Lines(pinned) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		pins = append(pins, Pin{Version: f[0], SHA256: f[1], File: f[2]})
	}
	return pins
}

// Versions lists the pinned releases by version, oldest first.
func Versions() []string {
	var vs []string
	for _, p := range Pins() {
		vs = append(vs, p.Version)
	}
	return vs
}

// Get unpacks the wheel of a pinned SGLang release into a fresh folder of the
// test and returns that folder, laid out as site-packages: sglang/ and
// sglang-<version>.dist-info/ with its RECORD as published.
func Get(t testing.TB, version string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "site-packages")
	if err := unpack(Wheel(t, version), dir); err != nil {
		t.Fatalf("unpack sglang %s: %v", version, err)
	}
	return dir
}

// Wheel returns the path of the pinned release's wheel in the cache, its
// SHA-256 verified by this call; it is downloaded when it is not there. The
// file must not be changed.
func Wheel(t testing.TB, version string) string {
	t.Helper()
	for _, p := range Pins() {
		if p.Version != version {
			continue
		}
		file, err := fetch(p)
		if err != nil {
			t.Fatalf("sglang %s: %v", version, err)
		}
		return file
	}
	t.Fatalf("sglang %s is not pinned in patches/wheels/wheels.txt; there are %s", version, strings.Join(Versions(), ", "))
	return ""
}

// File returns one file of the release's wheel, or nil when the release does
// not have it. name is relative to site-packages.
func File(t testing.TB, version, name string) []byte {
	t.Helper()
	z, err := zip.OpenReader(Wheel(t, version))
	if err != nil {
		t.Fatalf("sglang %s: %v", version, err)
	}
	defer z.Close()
	for _, f := range z.File {
		if f.Name != name {
			continue
		}
		b, err := read(f)
		if err != nil {
			t.Fatalf("sglang %s: %s: %v", version, name, err)
		}
		return b
	}
	return nil
}

// fetch makes sure that the cache holds the pinned wheel. Several test
// processes may do so at once: each downloads into a folder of its own, and the
// last rename wins with the same content.
func fetch(p Pin) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	file := filepath.Join(cache, p.File)
	if sum, err := hashFile(file); err == nil && sum == p.SHA256 {
		return file, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	pin := filepath.Join(tmp, "requirements.txt")
	if err := os.WriteFile(pin, fmt.Appendf(nil, "sglang==%s --hash=sha256:%s\n", p.Version, p.SHA256), 0o644); err != nil {
		return "", err
	}
	cmd := exec.Command("python3", "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
		"--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", "3.12",
		"--platform", "manylinux_2_34_x86_64", "--platform", "any",
		"--require-hashes", "--dest", tmp, "-r", pin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("pip download: %w\n%s", err, bytes.TrimSpace(out))
	}
	got := filepath.Join(tmp, p.File)
	sum, err := hashFile(got)
	if err != nil {
		return "", fmt.Errorf("pip downloaded another file than %s: %w", p.File, err)
	}
	if sum != p.SHA256 {
		return "", fmt.Errorf("%s has SHA-256 %s, wheels.txt says %s", p.File, sum, p.SHA256)
	}
	return file, os.Rename(got, file)
}

func cacheDir() (string, error) {
	if dir := os.Getenv("SPECRUN_CACHE"); dir != "" {
		return filepath.Join(dir, "wheels"), nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, ".cache", "wheels"), nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod above the working folder: set SPECRUN_CACHE")
		}
		dir = up
	}
}

func hashFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// unpack lays a wheel out as pip does, as far as these wheels need it: none of
// them has a .data folder.
func unpack(wheel, dir string) error {
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, f := range z.File {
		if !filepath.IsLocal(f.Name) {
			return fmt.Errorf("%s: entry %q leaves the folder", wheel, f.Name)
		}
		if top, _, _ := strings.Cut(f.Name, "/"); path.Ext(top) == ".data" {
			return fmt.Errorf("%s: entry %q needs an installer", wheel, f.Name)
		}
		to := filepath.Join(dir, filepath.FromSlash(f.Name))
		if f.FileInfo().IsDir() {
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		b, err := read(f)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", wheel, f.Name, err)
		}
		if err := os.WriteFile(to, b, 0o644|f.Mode().Perm()&0o111); err != nil {
			return err
		}
	}
	return nil
}

func read(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
