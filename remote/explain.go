package remote

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/pkg/sftp"
)

//go:embed scripts/*.sh
var scripts embed.FS

// noHashTool is sha256.sh's status when the host has none of its tools.
const noHashTool = 69

// fileText returns one of this package's scripts.
func fileText(name string) string {
	text, err := scripts.ReadFile("scripts/" + name + ".sh")
	if err != nil {
		panic(err) // embedded at build time: a wrong name is a wrong build
	}
	return string(text)
}

// DiskFullError says that a file did not fit.
type DiskFullError struct {
	Host, Path string
	Mount      string // where the file system is mounted
	FreeBytes  int64  // left for us; -1 unknown
	FreeInodes int64  // -1 unknown
	Err        error
}

func (e *DiskFullError) Error() string {
	what := fmt.Sprintf("%d bytes free", e.FreeBytes)
	if e.FreeInodes == 0 {
		what = "no inode free"
	}
	return fmt.Sprintf("%s: %s: no space left on %s (%s)", e.Host, e.Path, e.Mount, what)
}

// Hint says what the user can do about it.
func (e *DiskFullError) Hint() string {
	return "free space on " + e.Mount + " or point state_dir to another file system"
}

// Is makes the error an ErrDiskFull and a syscall.ENOSPC.
func (e *DiskFullError) Is(target error) bool {
	return target == ErrDiskFull || target == syscall.ENOSPC
}

func (e *DiskFullError) Unwrap() error { return e.Err }

// FileError says why a file could not be read or written. Kind is fs.ErrExist,
// fs.ErrNotExist, fs.ErrPermission, ErrReadOnly, or nil when the host could
// not tell.
type FileError struct {
	Host, Op, Path string
	Kind           error
	Detail         string // what the host said when asked
	Err            error
}

func (e *FileError) Error() string {
	msg := fmt.Sprintf("%s: %s %s: ", e.Host, e.Op, e.Path)
	switch {
	case e.Kind != nil:
		msg += e.Kind.Error()
	default:
		msg += e.Err.Error()
	}
	if e.Detail != "" {
		msg += " (" + e.Detail + ")"
	}
	return msg
}

// Hint says what the user can do about it; it may be empty.
func (e *FileError) Hint() string {
	switch e.Kind {
	case fs.ErrPermission:
		return "act as the owner of " + e.Path + ", or have its folder's permissions changed"
	case ErrReadOnly:
		return "the file system is mounted read-only: use another folder"
	}
	return ""
}

func (e *FileError) Unwrap() []error {
	if e.Kind == nil {
		return []error{e.Err}
	}
	return []error{e.Kind, e.Err}
}

// explain turns a failed file operation into one that says why. SFTP has one
// code for a full disk, a quota, a read-only mount and an existing file, so
// the host is asked.
func (h *Host) explain(ctx context.Context, op, path string, need int64, err error) error {
	if errors.Is(err, sftp.ErrSSHFxConnectionLost) {
		err = &Error{Host: h.name, Op: op + " " + path, Kind: ErrLost, Err: err}
	}
	switch {
	case ctx.Err() != nil, errors.Is(err, ErrLost), errors.Is(err, ErrClosed),
		errors.Is(err, ErrTimeout), errors.Is(err, ErrMismatch), errors.Is(err, ErrNoise):
		var known *Error
		if errors.As(err, &known) {
			return err
		}
		return fmt.Errorf("%s: %s %s: %w", h.name, op, path, err)
	}
	e := &FileError{Host: h.name, Op: op, Path: path, Err: err}
	for _, kind := range []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission} {
		if errors.Is(err, kind) {
			e.Kind = kind
		}
	}
	end, cancel := cleanupContext(ctx, endLimit)
	defer cancel()
	res, askErr := h.Run(end, Script{Name: "diagnose", Text: fileText("diagnose"), Vars: []Var{{"file", path}}})
	if askErr != nil {
		e.Err = errors.Join(err, askErr)
		return e
	}
	d := parseDiagnosis(string(res.Stdout))
	if e.Kind == nil {
		e.Kind = d.kind(op)
	}
	if op == "put" && (errors.Is(err, syscall.ENOSPC) || e.Kind == nil && d.full(need)) {
		return &DiskFullError{Host: h.name, Path: path, Mount: d.mount, FreeBytes: d.bytes, FreeInodes: d.inodes, Err: err}
	}
	e.Detail = d.detail
	return e
}

// diagnosis is what diagnose.sh says about a path.
type diagnosis struct {
	bytes, inodes  int64 // free, -1 unknown
	mount, options string
	state          map[string]bool // exists, nodir, dirwritable, readable
	detail         string
}

func parseDiagnosis(out string) diagnosis {
	d := diagnosis{bytes: -1, inodes: -1, mount: "its file system", state: map[string]bool{}}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		number, err := strconv.ParseInt(value, 10, 64)
		switch {
		case key == "kbytes" && err == nil:
			d.bytes = number * 1024
		case key == "inodes" && err == nil:
			d.inodes = number
		case key == "mount" && value != "":
			d.mount = value
		case key == "options":
			d.options = value
		case key == "folder":
			d.detail = value
		default:
			d.state[key] = true
		}
	}
	return d
}

// full: the file is removed by now, so its size must count against the space.
// A margin of 64 KiB stands for blocks and metadata.
func (d diagnosis) full(need int64) bool {
	return d.inodes == 0 || d.bytes >= 0 && d.bytes < max(need, 0)+64<<10
}

func (d diagnosis) kind(op string) error {
	write := op == "put"
	switch {
	case d.state["nodir"], !write && !d.state["exists"]:
		return fs.ErrNotExist
	case write && d.state["exists"]:
		return fs.ErrExist
	case write && strings.Contains(","+d.options+",", ",ro,"):
		return ErrReadOnly
	case write && !d.state["dirwritable"], !write && !d.state["readable"]:
		return fs.ErrPermission
	}
	return nil
}
